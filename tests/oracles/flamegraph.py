"""Reads a flamegraph with Python's XML parser and checks that its frames nest.

    flamegraph.py FILE       {"frames": [{"title", "x", "y", "width"}]} as JSON; exit code 1 if a rule is broken
"""

import json
import sys
import xml.etree.ElementTree as ET


def flamegraph(path):
    svg = ET.parse(path).getroot()
    space = {"s": "http://www.w3.org/2000/svg"}
    assert svg.tag == "{http://www.w3.org/2000/svg}svg", svg.tag
    text = open(path, encoding="utf-8").read()
    # Self-contained: nothing is loaded, nothing is run.
    assert "href" not in text and "<script" not in text and "url(" not in text
    frames = []
    for group in svg.findall("s:g", space):
        rect = group.find("s:rect", space)
        x, y, width = (float(rect.get(a)) for a in ("x", "y", "width"))
        frames.append({"title": group.find("s:title", space).text, "x": x, "y": y, "width": width})
    width, height = float(svg.get("width")), float(svg.get("height"))
    rows = {}
    for frame in frames:
        assert 0 <= frame["x"] and frame["x"] + frame["width"] <= width + 0.01, frame
        assert frame["y"] + 18 <= height, frame
        rows.setdefault(frame["y"], []).append(frame)
    for y, row in rows.items():
        row.sort(key=lambda f: f["x"])
        for a, b in zip(row, row[1:]):
            assert a["x"] + a["width"] <= b["x"] + 0.01, (a, b)
        above = rows.get(y - 18)
        for frame in row if above else []:
            assert any(
                p["x"] - 0.01 <= frame["x"] and frame["x"] + frame["width"] <= p["x"] + p["width"] + 0.01
                for p in above
            ), frame
    return {"frames": frames}


if __name__ == "__main__":
    print(json.dumps(flamegraph(sys.argv[1])))
