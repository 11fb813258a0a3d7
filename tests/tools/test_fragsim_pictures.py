#!/usr/bin/env python3
"""The pictures of pkv-fragsim: SVG files are well formed and hold every policy; the page is looked at
in a headless Chromium, which must load nothing else, complain about nothing and find data in every chart
and table. Pages that were broken on purpose show that the look can fail. Prints TAP.

usage: test_fragsim_pictures.py PROGRAM
"""
import csv
import json
import os
import re
import shutil
import signal
import stat
import sys
import xml.etree.ElementTree as ElementTree

import devtools
import tap_main
from fragsim_program import expect, good, in_folder, run
from tap_main import Skip

SVG = "{http://www.w3.org/2000/svg}"
POLICIES = ("max", "oracle:alloc=first-fit", "paged:block=16")
# about 54 s of arrivals in a pool that is too small for them: every part of the pool is there
RUN = ("run", "--quiet", "--num-prompts", "400", *(word for p in POLICIES for word in ("--policy", p)))
HOSTILE = "<img src=x onerror=alert(1)>'\"`$(touch pwned)`&amp;\u00fc.csv"
MEASURES = ("tokens", "used", "batch", "queue", "scatter")


def need_gnuplot():
    if not shutil.which("gnuplot"):
        raise Skip("gnuplot is missing (Debian: gnuplot-nox)")


def need_chromium():
    if not devtools.find_chromium():
        raise Skip("chromium is missing (Debian: chromium)")


def draw(folder, *args):
    """A page and the JSON report of the same run."""
    good(*args, "--html", "page.html", "--json", "report.json", cwd=folder)
    return folder / "page.html", json.loads((folder / "report.json").read_text())


# ---------------------------------------------------------------- SVG files

def group_of(chart, policy):
    """What a chart over time draws for a policy: gnuplot names the groups by their titles."""
    return [g for g in chart.iter(SVG + "g") if g.findtext(SVG + "title") == policy]


def n_points(element):
    return sum(len(re.findall("[ML]", path.get("d"))) for path in element.iter(SVG + "path"))


def bars_of(chart, number):
    """(left, right) of the boxes in one bar, from left to right, those without width left out."""
    rows, top = {}, int(chart.get("data-plot").split()[2])
    for polygon in chart.iter(SVG + "polygon"):
        xs, ys = zip(*(map(float, p.split(",")) for p in polygon.get("points").split()))
        if min(ys) >= top:  # above are the boxes of the key
            rows.setdefault(max(ys), []).append((min(xs), max(xs)))
    return sorted(s for s in rows[sorted(rows)[number]] if s[1] > s[0])


@in_folder
def test_svg_has_every_policy(folder):
    need_gnuplot()
    expect(good(*RUN, "--svg", "a.svg", cwd=folder) == "", "something was printed")
    root = ElementTree.parse(folder / "a.svg").getroot()
    charts = {c.get("id"): c for c in root.iter(SVG + "svg") if c.get("class") == "chart"}
    want = {"c_waste", "c_tokens", "c_used", "c_batch", "c_queue", "c_scatter", "c_map0", "c_map1", "c_map2"}
    expect(set(charts) == want, f"charts {sorted(charts)}")
    for policy in POLICIES:
        texts = ["".join(t.itertext()).strip() for t in charts["c_waste"].iter(SVG + "text")]
        expect(policy in texts, f"{policy} has no bar")
        left, right, _, _ = map(int, charts["c_waste"].get("data-plot").split())
        spans = bars_of(charts["c_waste"], POLICIES.index(policy))
        gaps = [b[0] - a[1] for a, b in zip([(0, left)] + spans, spans + [(right, 0)])]
        expect(len(spans) >= 3 and max(map(abs, gaps)) < 0.1, f"bars of {policy} have gaps: {spans}")
        for name in ("c_tokens", "c_used", "c_batch", "c_queue"):
            groups = group_of(charts[name], policy)
            expect(len(groups) == 1, f"{name}: {len(groups)} lines for {policy}")
            expect(n_points(groups[0]) >= 200, f"{name}: {n_points(groups[0])} points for {policy}")
    for k in range(len(POLICIES)):
        expect(n_points(charts[f"c_map{k}"]) >= 200, f"c_map{k}: {n_points(charts[f'c_map{k}'])} points")
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    expect(len(ids) == len(set(ids)), "an id twice")


def path_points(element):
    """(x, y) of every corner of the paths, in pixels; a list per stroke."""
    strokes = []
    for path in element.iter(SVG + "path"):
        for kind, x, y in re.findall(r"([ML])(-?[\d.]+),(-?[\d.]+)", path.get("d")):
            if kind == "M":
                strokes.append([])
            strokes[-1].append((float(x), float(y)))
    return strokes


def shown_rows(path, span_s):
    """Rows of the time series that charts show, with times from the first arrival."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    start_s = float(rows[0]["t_s"])
    for row in rows:
        row["t_s"] = float(row["t_s"]) - start_s
    return [row for row in rows if row["t_s"] <= span_s * (1 + 1e-5)]


@in_folder
def test_long_series_keep_their_extremes(folder):
    """2,700 samples per policy are too many for a line; what it shows is checked against the CSV."""
    need_gnuplot()
    good(*RUN, "--sample-interval", "20ms", "--timeseries", "a.csv", "--svg", "a.svg", cwd=folder)
    root = ElementTree.parse(folder / "a.svg").getroot()
    charts = {c.get("id"): c for c in root.iter(SVG + "svg") if c.get("class") == "chart"}
    left, right, top, bottom = map(int, charts["c_tokens"].get("data-plot").split())
    span_s = float(charts["c_tokens"].get("data-span"))
    rows = shown_rows(folder / "a.csv", span_s)
    for policy in POLICIES:
        want = [(r["t_s"], 100 * int(r["token"]) / 15728) for r in rows if r["policy"] == policy]
        stroke, = path_points(group_of(charts["c_tokens"], policy)[0])
        got = [((x - left) / (right - left) * span_s, 100 * (bottom - y) / (bottom - top)) for x, y in stroke]
        expect(len(want) > 2500 and 500 < len(got) <= 600, f"{len(want)} samples, {len(got)} points")
        for pick in (min, max):
            a, b = pick(v for _, v in got), pick(v for _, v in want)
            expect(abs(a - b) < 0.05, f"{policy}: {pick.__name__} {a} in the chart, {b} in the CSV")
        expect(got == sorted(got, key=lambda p: p[0]), f"{policy}: not in order of time")
        for t, value in got[::50]:  # each point is a sample
            near = [v for at, v in want if abs(at - t) < 0.03]
            expect(any(abs(value - v) < 0.05 for v in near), f"{policy}: {value} at {t} s, samples {near}")


def measured(row):
    """What the tables of the page show, from a row of the time series."""
    free = sum(int(row[n]) for n in ("unusable", "short", "limited", "idle"))
    largest = int(row["largest_free_run"])
    return {"tokens": 100 * int(row["token"]) / 15728, "used": 100 - 100 * free / 15728,
            "batch": int(row["running"]), "queue": int(row["waiting"]) + int(row["swapped"]),
            "scatter": 100 * (1 - largest / free) if free else None}


@in_folder
def test_tables_are_the_series(folder):
    good(*RUN, "--policy", "paged+swap", "--swap-space", "1GiB", "--timeseries", "a.csv", "--html", "a.html",
         cwd=folder)
    page = (folder / "a.html").read_text()
    rows = shown_rows(folder / "a.csv", 1e9)
    expect(any(int(r["swapped"]) for r in rows), "nobody was swapped out")
    for measure in MEASURES:
        table = re.search(rf'(?s)id="d_{measure}">(.*?)</table>', page)[1]
        head, *body = [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in table.split("<tr>")[1:]]
        expect(len(body) > 200, f"d_{measure}: {len(body)} rows")
        for k, policy in enumerate(head[1:], 1):
            want = [r for r in rows if r["policy"] == policy]
            for cells, row in zip(body, want):
                value = measured(row)[measure]
                expect(abs(float(cells[0]) - row["t_s"]) < 1e-3, f"d_{measure}: {cells[0]} s, {row['t_s']}")
                expect(cells[k] == "-" if value is None else abs(float(cells[k]) - value) <= 6e-4 * abs(value),
                       f"d_{measure}: {cells[k]} for {policy} at {cells[0]} s, {value} in the CSV")


@in_folder
def test_maps_show_the_parts(folder):
    """Areas of a map against the time series; a cell shows what most of it holds, so not exactly."""
    need_gnuplot()
    good(*RUN, "--timeseries", "a.csv", "--svg", "a.svg", cwd=folder)
    root = ElementTree.parse(folder / "a.svg").getroot()
    charts = {c.get("id"): c for c in root.iter(SVG + "svg") if c.get("class") == "chart"}
    span_s = float(charts["c_tokens"].get("data-span"))
    rows = shown_rows(folder / "a.csv", span_s)
    for k, policy in enumerate(POLICIES):
        samples = [r for r in rows if r["policy"] == policy]
        left, right, top, bottom = map(int, charts[f"c_map{k}"].get("data-plot").split())
        areas = {}
        for group in charts[f"c_map{k}"].iter(SVG + "g"):
            title, strokes = group.findtext(SVG + "title"), path_points(group)
            if not title or not strokes:
                continue
            width = float(next(g.get("stroke-width") for g in group.iter(SVG + "g") if g.get("stroke-width")))
            area = sum(abs(a[0] - b[0]) + abs(a[1] - b[1]) for a, b in strokes) * width
            areas[title] = 100 * area / ((right - left) * (bottom - top))
        for part, names in (("free", "unusable short limited idle"), ("reservation", "reservation"),
                            ("token", "token"), ("internal", "internal")):
            if part not in areas:  # what covers most is the ground and has no lines
                continue
            want = sum(100 * int(r[n]) / 15728 for r in samples for n in names.split()) / len(samples)
            expect(abs(areas[part] - want) < 4, f"{policy}: {areas[part]:.1f} % {part} in the map, {want:.1f} %")
        expect(len(areas) >= 2, f"{policy}: only {areas}")


@in_folder
def test_paper_accounting(folder):
    need_gnuplot()
    good(*RUN, "--policy", "pow2", "--paper-accounting", "--svg", "a.svg", "--json", "a.json", cwd=folder)
    chart = next(c for c in ElementTree.parse(folder / "a.svg").getroot().iter(SVG + "svg")
                 if c.get("id") == "c_waste")
    texts = ["".join(t.itertext()).strip() for t in chart.iter(SVG + "text")]
    expect("external" in texts and not {"rounding", "unusable", "free"} & set(texts), f"{texts}")
    for policy in json.loads((folder / "a.json").read_text())["policies"]:
        external = 100 * policy["split"]["external"]
        expect(external < 4 or f"{external:.1f}" in texts, f"{policy['policy']}: no {external:.1f} in {texts}")


@in_folder
def test_same_bytes_whatever_the_environment(folder):
    need_gnuplot()
    env = dict(os.environ, GNUTERM="png", GNUPLOT_LIB="/nowhere", LC_ALL="de_DE.UTF-8", HOME=str(folder))
    (folder / ".gnuplot").write_text("set label 'mine' at graph 0.5,0.5\n")
    for path, where in (("a", os.environ), ("b", env)):
        code, _, err = run(*RUN, "--svg", path, "--html", path + ".html", cwd=folder, env=where)
        expect(code == 0, err)
    code, _, err = run(*RUN, "--svg", "c", cwd=folder,  # children are not to be waited for
                       before=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    expect(code == 0 and (folder / "c").read_bytes() == (folder / "a").read_bytes(), f"SIGCHLD ignored: {err}")
    expect((folder / "a").read_bytes() == (folder / "b").read_bytes(), "two SVG files differ")
    pages = [(folder / f"{p}.html").read_text().replace(f"{p}.html", "").replace(f"--svg {p}", "")
             for p in "ab"]
    expect(pages[0] == pages[1], "two pages differ")


def put_program(folder, text):
    """A program called gnuplot, alone on the path but for what a shell script needs."""
    program = folder / "bin" / "gnuplot"
    program.parent.mkdir()
    if text:
        program.write_text("#!/bin/sh\n" + text)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return dict(os.environ, PATH=str(program.parent))


@in_folder
def test_without_gnuplot(folder):
    env = put_program(folder, None)
    # the trace is not there either, but nothing is read before this is known
    for args in (("run",), ("sweep", "--kv-tokens", "1000,2000")):
        code, out, err = run(*args, "--trace", "none.csv", "--svg", "a.svg", cwd=folder, env=env)
        expect(code == 2 and out == "" and "--svg needs gnuplot" in err and "gnuplot-nox" in err, err)
    code, _, err = run(*RUN, "--html", "a.html", cwd=folder, env=env)
    expect(code == 0 and err == "", err)
    page = (folder / "a.html").read_text()
    expect('id="no-charts"' in page and "<svg" not in page, "a page without charts says so")
    expect(all(f'id="d_{m}"' in page for m in MEASURES), "the data is there without the charts")
    expect(sorted(p.name for p in folder.iterdir()) == ["a.html", "bin"], "a file was left behind")


@in_folder
def test_gnuplot_that_fails(folder):
    need_gnuplot()
    real = shutil.which("gnuplot")
    env = put_program(folder, f"""script=$(/bin/cat)
case $script in *c_batch*) echo 'line 7: it
   broke' >&2; exit 3;; esac
printf '%s\\n' "$script" | {real} -d
""")
    for option in ("--svg", "--html"):
        code, _, err = run(*RUN, option, "a", "--json", "b", cwd=folder, env=env)
        expect(code == 2 and err == "pkv-fragsim: gnuplot could not draw 'c_batch': broke\n", f"{code}: {err}")
        expect([p.name for p in folder.iterdir()] == ["bin"], "a file was left behind")


# ---------------------------------------------------------------- the page in a browser

LOOK = r"""(() => {
  const numbers = e => [...e.querySelectorAll('path,polygon,polyline')].reduce((n, s) => n +
      ((s.getAttribute('d') || s.getAttribute('points') || '').match(/-?[\d.]+,-?[\d.]+/g) || []).length, 0);
  const box = e => { const b = e.getBoundingClientRect(); return [b.width, b.height]; };
  const chart = s => ({id: s.id, box: box(s), points: numbers(s),
      texts: [...s.querySelectorAll('text')].map(t => t.textContent.trim()),
      lines: Object.fromEntries([...s.querySelectorAll('g')].filter(g => g.firstElementChild &&
          g.firstElementChild.tagName === 'title').map(g => [g.firstElementChild.textContent,
          {points: numbers(g), box: box(g)}]))});
  return {
    charts: [...document.querySelectorAll('svg.chart')].map(chart),
    figures: [...document.querySelectorAll('figure')].map(f => ({id: f.id, box: box(f),
        charts: f.querySelectorAll('svg.chart').length,
        words: (f.querySelector('figcaption') || {textContent: ''}).textContent.length})),
    tables: Object.fromEntries([...document.querySelectorAll('table')].map(t => [t.id,
        {rows: t.tBodies[0].rows.length, columns: t.rows[0].cells.length,
         empty: [...t.querySelectorAll('td')].filter(c => c.textContent === '').length}])),
    ids: [...document.querySelectorAll('[id]')].map(e => e.id),
    bad: document.body.innerText.match(/\b(NaN|undefined|inf|null)\b/g) || [],
    text: document.body.innerText,
  };
})()"""


def overflow(page, width):
    page.resize(width)
    return page.ask("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def general_complaints(page, path):
    """What must hold for any of our pages."""
    url = page.open(path)
    yield from page.problems
    yield from (f"request of {r}" for r in page.requests if r != url)
    if page.requests.count(url) != 1:
        yield f"the page itself was asked for {page.requests.count(url)} times"
    for width in (1280, 800):
        if overflow(page, width) > 0:
            yield f"wider than the window at {width} pixels"
    page.resize(1280)
    seen = page.ask(LOOK)
    for name in {i for i in seen["ids"] if seen["ids"].count(i) > 1}:
        yield f"id {name} more than once"
    for chart in seen["charts"]:
        if min(chart["box"]) <= 0 or chart["points"] < 4:
            yield f"{chart['id']} is empty"
        for name, line in chart["lines"].items():
            if line["points"] < 4 or max(line["box"]) <= 0:
                yield f"{chart['id']}: nothing drawn for {name}"
    for figure in seen["figures"]:
        if figure["charts"] < 1 or min(figure["box"]) <= 0 or figure["words"] < 20:
            yield f"figure {figure['id']}: {figure}"
    for name, table in seen["tables"].items():
        if table["rows"] < 1:
            yield f"table {name} is empty"
    for word in seen["bad"]:
        yield f"the text says {word}"


def leaves(value):
    """Rows that an object gets: its values, those of objects in it too, tables apart."""
    if isinstance(value, dict) and value:
        return sum(map(leaves, value.values()))
    return 0 if isinstance(value, list) and value and isinstance(value[0], dict) else 1


def run_complaints(page, path, report):
    """And of the page of a run, whose JSON report is at hand."""
    yield from general_complaints(page, path)
    seen = page.ask(LOOK)
    charts = {c["id"]: c for c in seen["charts"]}
    names = [p["policy"] for p in report["policies"]]
    want = ["c_waste"] + [f"c_{m}" for m in MEASURES] + [
        f"c_{kind}{k}" for k in range(len(names)) for kind in ("parts", "map")]
    if sorted(charts) != sorted(want):
        yield f"charts {sorted(charts)}, expected {sorted(want)}"
    for k, policy in enumerate(report["policies"]):
        name, token = policy["policy"], 100 * policy["split"]["token"]
        if name not in charts["c_waste"]["texts"]:
            yield f"no bar for {name}"
        if token >= 4 and f"{token:.1f}" not in charts["c_waste"]["texts"]:
            yield f"the bar of {name} does not say {token:.1f}"
        for measure in ("tokens", "used", "batch", "queue"):
            if charts[f"c_{measure}"]["lines"].get(name, {"points": 0})["points"] < 200:
                yield f"c_{measure}: too few points for {name}"
        shown = charts.get(f"c_map{k}", {"texts": (), "points": 0})
        if not {"token", "free"} <= set(shown["texts"]) or shown["points"] < 200:
            yield f"c_map{k} shows too little"
    n, tables = len(names), seen["tables"]
    rows = {"t_memory": n, "t_service": n, "j_config": leaves(report["config"]),
            "j_input": leaves(report["input"]), "j_requests": leaves(report["requests"]),
            "j_closed_forms": leaves(report["closed_forms"]), "j_policies": leaves(report["policies"][0])}
    for table, count in rows.items():
        if tables.get(table, {"rows": None})["rows"] != count:
            yield f"{table}: {tables.get(table)}, expected {count} rows"
    for m in MEASURES:
        if tables[f"d_{m}"]["rows"] < 200 or tables[f"d_{m}"]["columns"] < 3:
            yield f"d_{m}: {tables[f'd_{m}']}"
    for text in (*report["notes"], report["repro_command"]):
        if text not in seen["text"]:
            yield f"the page does not say {text!r}"


@in_folder
def test_page_in_a_browser(folder):
    need_gnuplot()
    need_chromium()
    path, report = draw(folder, *RUN)
    with devtools.browser(devtools.find_chromium()) as page:
        complaints = list(run_complaints(page, path, report))
        expect(not complaints, "; ".join(complaints))
        page.resize(800, dark=True)
        ink = page.ask("getComputedStyle(document.querySelector('svg.chart text').parentNode).fill")
        expect(ink == "rgb(231, 232, 234)", f"text in charts is {ink} on dark ground")


def sweep_complaints(page, path, report):
    yield from general_complaints(page, path)
    seen = page.ask(LOOK)
    charts = {c["id"]: c for c in seen["charts"]}
    if sorted(charts) != ["c_batch", "c_latency", "c_waste"]:
        yield f"charts {sorted(charts)}"
    n_x = max(len(axis["values"]) for axis in report["axes"])
    n_points, n_policies = len(report["points"]), len(report["points"][0]["policies"])
    n_lines = n_points // n_x * n_policies
    for name, chart in charts.items():
        if len(chart["lines"]) != n_lines:
            yield f"{name}: {sorted(chart['lines'])}, expected {n_lines} lines"
        for label, line in chart["lines"].items():
            if line["points"] < n_x:
                yield f"{name}: {line['points']} points for {label}"
    rows = {"t_points": n_points * n_policies, "d_batch": n_x, "d_latency": n_x, "d_waste": n_x,
            "t_knees": len(report["knees"])}
    for table, count in rows.items():
        if seen["tables"].get(table, {"rows": None})["rows"] != count:
            yield f"{table}: {seen['tables'].get(table)}, expected {count} rows"


@in_folder
def test_sweep_in_a_browser(folder):
    need_gnuplot()
    need_chromium()
    path, report = draw(folder, "sweep", "--quiet", "--num-prompts", "150", "--request-rate", "1,8",
                        "--block-tokens", "1-64*4", "--policy", "max", "--policy", "paged", "--svg", "a.svg")
    root = ElementTree.parse(folder / "a.svg").getroot()
    charts = {c.get("id"): c for c in root.iter(SVG + "svg") if c.get("class") == "chart"}
    for policy in ("max", "paged"):
        for rate in ("1", "8"):
            groups = group_of(charts["c_latency"], f"{policy}, request-rate {rate}")
            expect(len(groups) == 1 and n_points(groups[0]) >= 4, f"{policy} at {rate}")
            expect(len(list(groups[0].iter(SVG + "circle"))) == 4, f"{policy} at {rate}: circles")
    with devtools.browser(devtools.find_chromium()) as page:
        complaints = list(sweep_complaints(page, path, report))
        expect(not complaints, "; ".join(complaints))
        latency = page.ask("[...document.querySelectorAll('#d_latency td')].map(c => c.textContent)")
        want = report["points"][-1]["policies"][1]["normalized_s_per_token"]["mean"]
        expect(abs(float(latency[-1]) - want) < 1e-4 * want, f"last latency {latency[-1]}, in JSON {want}")
        path.write_text(re.sub(r"(<title>max, request-rate 1</title>).*?</g>", r"\1</g>", path.read_text(),
                               flags=re.DOTALL))
        complaints = "; ".join(sweep_complaints(page, path, report))
        expect("nothing drawn for max, request-rate 1" in complaints, f"an empty line not noticed: {complaints}")


@in_folder
def test_page_answers(folder):
    """Boxes switch lines off; the values under the pointer are those of the table."""
    need_gnuplot()
    need_chromium()
    path, _ = draw(folder, *RUN)
    with devtools.browser(devtools.find_chromium()) as page:
        page.resize(1280)
        page.open(path)
        hidden = "[...document.querySelectorAll('svg g')].filter(g => g.style.display === 'none').length"
        expect(page.ask(hidden) == 0, "hidden from the start")
        page.ask(f"document.querySelector('input[data-policy=\"{POLICIES[1]}\"]').click()")
        expect(page.ask(hidden) == 5, f"{page.ask(hidden)} lines hidden")
        x, y = page.ask("""(() => { const s = document.getElementById('c_batch'); s.scrollIntoView();
            const b = s.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })()""")
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        tip = page.ask("document.querySelector('#f_batch .tip').innerText").splitlines()
        rows = page.ask("[...document.querySelectorAll('#d_batch tr')].map(r => [...r.cells]"
                        ".map(c => c.textContent))")
        got = [line.rsplit(": ", 1) for line in tip]
        expect([g[0] for g in got] == rows[0], f"tip {tip}")
        expect([g[1] for g in got] in rows[1:], f"tip {tip} is no row of the table")
        expect(page.problems == [], str(page.problems))


@in_folder
def test_hostile_names(folder):
    need_gnuplot()
    need_chromium()
    name = HOSTILE.replace("/", "")
    (folder / name).write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
        f"2023-11-16 18:15:{s % 60:02},{300 + s},{40 + s}\n" for s in range(60)))
    path, report = draw(folder, "run", "--quiet", "--trace", name, "--kv-tokens", "3000", "--policy", "oracle",
                        "--policy", "paged+prefix+swap:block=7", "--swap-space", "1GiB",
                        "--svg", "<b>&.svg")
    ElementTree.parse(folder / "<b>&.svg")
    with devtools.browser(devtools.find_chromium()) as page:
        complaints = list(general_complaints(page, path))
        expect(not complaints, "; ".join(complaints))
        expect(name in page.ask("document.body.innerText"), "the name of the trace is not there as it is")
        expect(page.ask("document.images.length") == 0, "an image from a file name")
    expect(not (folder / "pwned").exists(), "a command in a file name ran")


@in_folder
def test_broken_pages_are_noticed(folder):
    """Each damage to a good page must be found, or the other tests mean nothing."""
    need_gnuplot()
    need_chromium()
    path, report = draw(folder, *RUN)
    good = path.read_text()
    first_line = re.search(r"(?s)(<title>max</title>.*?)<path stroke='rgb\( 68, 119, 170\)' +d='[^']*'/>", good)
    damages = {
        "Error: broken": good.replace("'use strict';", "throw new Error('broken');", 1),
        "console: no": good.replace("'use strict';", "console.warn('no');", 1),
        "request of http": good.replace("</main>", "<img src='http://127.0.0.1:9/x.png'></main>", 1),
        "request of file": good.replace("</main>", "<script src='other.js'></script></main>", 1),
        "dialog": good.replace("</main>", "<img src='data:,' onerror='alert(1)'></main>", 1),
        "nothing drawn for max": good[:first_line.start()] + first_line[1] + good[first_line.end():],
        "c_waste is empty": re.sub(r"(id=\"c_waste\" class=\"chart\")", r'\1 style="display:none"', good),
        "wider than the window at 800": good.replace("<main>", "<main style='width:900px'>", 1),
        "id c_map0 more than once": good.replace('id="c_map1"', 'id="c_map0"'),
        "t_memory": good.replace("<td>max</td>", "<td>max</td></tr><tr><td>more</td>", 1),
        "the text says NaN": good.replace("<h1>", "<h1>NaN ", 1),
    }
    with devtools.browser(devtools.find_chromium()) as page:
        for want, text in damages.items():
            expect(text != good, f"the damage for {want!r} did not happen")
            path.write_text(text)
            complaints = list(run_complaints(page, path, report))
            expect(any(want in c for c in complaints), f"{want!r} was not noticed, only {complaints}")


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
