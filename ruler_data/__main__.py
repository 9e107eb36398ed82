"""The program `ruler-data`, as `python -m ruler_data`."""

from runpy import run_module

if __name__ == "__main__":  # by name: the contract imports none of the other packages
    run_module("ruler_builders", run_name="__main__", alter_sys=True)
