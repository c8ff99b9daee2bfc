"""Compile a LightGBM model with lleaves, by the interpreter that has it.

python benchmarks/peers/lleaves_compile.py MODEL.txt MODEL.o
"""

import sys

import lleaves


def main() -> None:
    """Write the object file, to be linked."""
    model = lleaves.Model(model_file=sys.argv[1])
    model.compile(cache=sys.argv[2])


if __name__ == "__main__":
    main()
