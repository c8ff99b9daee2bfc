"""Compile a LightGBM model with tl2cgen, apart, as it writes to standard output.

python benchmarks/peers/tl2cgen_compile.py MODEL.txt MODEL.so
"""

import sys

import tl2cgen
import treelite


def main() -> None:
    """Write the shared object, whose `predict` takes a row."""
    tl2cgen.export_lib(
        treelite.frontend.load_lightgbm_model(sys.argv[1]),
        toolchain="gcc",
        libpath=sys.argv[2],
        params={"quantize": 1, "parallel_comp": 4},
        nthread=2,
        options=["-march=native"],
    )


if __name__ == "__main__":
    main()
