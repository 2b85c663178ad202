"""Packaging of memattn."""

import glob
import pathlib
import re

from setuptools import find_packages, setup

ROOT = pathlib.Path(__file__).parent
CONFIGS = sorted(path.name for path in (ROOT / "configs").iterdir() if path.name != "studies")  # that are installed
CJK = "sacrebleu[ja,ko]>=2.4,<3"  # with MeCab, the tokenizers of Japanese and Korean
ONNX = ["onnx>=1.17,<2", "onnxruntime>=1.19,<2"]
ROUGE = "rouge-score>=0.1.2,<0.2"  # with nltk, for its stemmer
SPEECH = ["jiwer>=4,<5", "soundfile>=0.13,<1", "soxr>=0.5,<2"]  # error rates, audio files, resampling

setup(
    name="memattn",
    version=re.search(r'__version__ = "(.+)"', (ROOT / "memattn/__init__.py").read_text(encoding="utf-8")).group(1),
    description="Attention with a fixed-size memory for sequence-to-sequence models (Britz, Guan & Luong, 2017)",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    package_dir={"": "."},  # an editable install is then a line in a .pth file, without a warning
    packages=find_packages(include=["memattn", "memattn.*"]),
    package_data={"memattn": ["py.typed"], "memattn.reports": ["page.*"]},
    data_files=[(f"share/memattn/configs/{name}", glob.glob(f"configs/{name}/*.yaml")) for name in CONFIGS],
    python_requires=">=3.10,<3.14",
    install_requires=[
        "tensorflow>=2.15.1,<2.22",
        "keras>=2.15,<3.16",
        "tensorboard>=2.15,<2.22",
        "absl-py>=1.4,<3",
        "filelock>=3.30,<4",
        "Jinja2>=3.1,<4",
        "matplotlib>=3.8,<4",
        "ml-dtypes>=0.2",  # which Keras requires, too
        "numpy>=1.26,<3",
        "pooch>=1.8,<2",  # checksums of corpora; downloads of the recipes in data/
        "PyYAML>=6.0,<7",
        "regex>=2021.8.3",
        "sacrebleu>=2.4,<3",
        "sacremoses>=0.1,<1",
        "subword-nmt>=0.3.8,<0.4",
        "tqdm>=4.66,<5",
    ],
    extras_require={
        "cjk": [CJK],
        "onnx": ONNX,
        "rouge": [ROUGE],
        "speech": SPEECH,
        "test": [
            CJK,
            *ONNX,
            ROUGE,
            *SPEECH,
            "pytest>=8,<10",
            "pytest-xdist>=3.5,<4",
            "nbclient>=0.10,<1",
            "nbformat>=5,<6",
            "ipykernel>=6,<8",
        ],
        "jax": ["jax>=0.4.30"],  # for memattn.layers; see docs/start/install.md
        "torch": ["torch>=2.1"],
        "docs": ["sphinx>=8.1,<10", "myst-nb>=1.2,<2", "furo>=2024.8.6"],
        "lint": ["ruff>=0.6,<1", "mypy>=1.15,<3", "types-PyYAML"],
        "addons": ["tensorflow==2.15.1", "tensorflow-addons==0.23.0", "typing_extensions==4.5.0"],
    },
    entry_points={
        "console_scripts": [
            "memattn-prepare = memattn.prepare:main",
            "memattn-train = memattn.train:main",
            "memattn-eval = memattn.eval:main",
            "memattn-sweep = memattn.sweep:main",
            "memattn-translate = memattn.translate:main",
            "memattn-export = memattn.export:main",
            "memattn-onnx = memattn.onnx:main",
            "memattn-report = memattn.report:main",
        ]
    },
    keywords="attention, sequence-to-sequence, machine translation, beam search, Keras, TensorFlow, reproduction",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Education",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
