#!/usr/bin/env bash
# Makes an environment for each library that the benchmarks compare with, or for those named: all take about 7 minutes
# and 13 GB.
#   scripts/benchmarks/peers/setup.sh [FOLDER [NAME...]]        (default: build/peers, all)
set -euo pipefail
folder=${1:-build/peers}
names=${*:2}
python=${PYTHON:-python3.11} # the newest that TensorFlow 2.15 and OpenNMT-py run on

make_environment() {
    local name=$1
    shift
    [[ -z $names || " $names " == *" $name "* ]] || return 0
    [ -e "$folder/$name/installed" ] && return
    "$python" -m venv "$folder/$name"
    "$folder/$name/bin/python" -m pip install --quiet "$@"
    touch "$folder/$name/installed"
}

mkdir -p "$folder"
make_environment onmt_tf "OpenNMT-tf[tensorflow]==2.32.0"
make_environment onmt_py OpenNMT-py==3.5.1 "numpy<2"
make_environment joey_nmt joeynmt==2.3.0 torch==2.13.0 importlib_metadata
make_environment marian pymarian==1.12.42 numpy
make_environment ct2 ctranslate2==4.8.5 numpy
make_environment tfa tensorflow==2.15.1 tensorflow-addons==0.23.0 typing_extensions==4.5.0
