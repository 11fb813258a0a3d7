#!/usr/bin/env python3
"""Make the pictures of docs/simulator.md: runs the command that the manual gives and cuts charts out of
the file.

usage: doc_pictures.py PROGRAM     (PROGRAM is a pkv-fragsim; gnuplot must be on the PATH)
"""
import pathlib
import re
import subprocess
import sys

COMMAND = "run --num-prompts 400 --seed 1 --sample-interval 250ms --quiet --svg -"
CHARTS = {"c_waste": "waste", "c_batch": "batch", "c_map2": "map-oracle", "c_map5": "map-paged"}
FOLDER = pathlib.Path(__file__).resolve().parents[1] / "docs/pictures"
MAX_BYTES = 60_000


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    whole = subprocess.run([sys.argv[1], *COMMAND.split()], check=True, capture_output=True).stdout.decode()
    FOLDER.mkdir(exist_ok=True)
    for chart, name in CHARTS.items():
        head, body = re.search(rf'(?s)<svg [^>]*(id="{chart}" [^>]*)>(.*?</svg>\n)', whole).groups()
        width, height = re.search(r'viewBox="0 0 (\d+) (\d+)"', head).groups()
        text = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" {head}>\n'
                f'<rect width="{width}" height="{height}" fill="white"/>{body}')
        if len(text) > MAX_BYTES:
            sys.exit(f"{name}.svg has {len(text)} bytes, more than {MAX_BYTES}")
        (FOLDER / f"{name}.svg").write_text(text)
        print(f"{name}.svg: {len(text)} bytes")


if __name__ == "__main__":
    main()
