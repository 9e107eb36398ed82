"""RULER in kvpress: run this file in `kvpress/evaluation`, with the options of `evaluate.py`.

    cd kvpress/evaluation
    python EXPORT/ruler_kvpress.py --data_dir 4096 --model ... --press_name knorm

The folder of this file, written by `ruler-data export --for kvpress`, replaces the dataset `ruler`.
"""

import sys
from pathlib import Path

sys.path.insert(0, ".")

from evaluate import CliEntryPoint, Fire
from evaluate_registry import DATASET_REGISTRY

DATASET_REGISTRY["ruler"] = str(Path(__file__).resolve().parent)

if __name__ == "__main__":
    Fire(CliEntryPoint)
