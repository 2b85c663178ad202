# docker build --tag memattn .
FROM tensorflow/tensorflow:2.21.0-gpu
WORKDIR /memattn
COPY . .
RUN pip install --no-cache-dir .
