"""What nvcc made of a kernel: counts in the text of its PTX, and what must not stand there."""
import re

ENTRY = re.compile(r"^(?:\.visible|\.weak)?\s*\.entry\s+(\w+)\s*\(", re.M)
LABEL = re.compile(r"^\s*(\$L\w+):")
JUMP = re.compile(r"\bbra(?:\.uni)?\s+(\$L\w+)")
DIVISION = re.compile(r"\b(?:div|rem)\.[su](?:16|32|64)\s+%\w+, %\w+, %\w+;")
COPY = re.compile(r"\bcp\.async\.c[ag]\.shared\.global(?:\.\S+)?\s+\[[^]]*\],\s*\[[^]]*\],\s*(\w+)")
LOCAL = re.compile(r"^\s*\.local\b|\b(?:ld|st)\.local\b")
LOAD = re.compile(r"\bld\.(?:global|volatile\.global)(?:\.nc)?(?:\.L\w+::\w+)*(?:\.(v[248]))?\.[busf](8|16|32|64|128)\b")
COUNTED = {"mma": r"\bmma\.sync\b", "ldmatrix": r"\bldmatrix\b", "movmatrix": r"\bmovmatrix\b",
           "cp.async": r"\bcp\.async\.c[ag]\b", "mul.wide": r"\bmul\.wide\b", "atom": r"\b(?:atom|red)\."}


def entries(text):
    """{mangled name: lines of its body}"""
    found = {}
    starts = list(ENTRY.finditer(text))
    for i, start in enumerate(starts):
        end = starts[i + 1].start() if i + 1 < len(starts) else len(text)
        body = text[start.end():end]
        found[start[1]] = re.sub(r"//[^\n]*", "", body).splitlines()
    return found


def n_threads(lines):
    for line in lines:
        if found := re.search(r"\.maxntid\s+(\d+)", line):
            return int(found[1])
    return 0


def in_loops(lines):
    """One truth per line: does it lie in an innermost loop around products of the tensor cores, between a
    label and a later jump to it? Loops over items around these run once for thousands of instructions. Of a
    kernel without products: in any loop."""
    at = {match[1]: i for i, line in enumerate(lines) if (match := LABEL.match(line))}
    loops = [(at[label], i) for i, line in enumerate(lines) for label in JUMP.findall(line)
             if at.get(label, i) < i]
    products = [i for i, line in enumerate(lines) if "mma.sync" in line]
    if products:
        around = [[loop for loop in loops if loop[0] <= i <= loop[1]] for i in products]
        loops = {min(found, key=lambda loop: loop[1] - loop[0]) for found in around if found}
    inside = [False] * len(lines)
    for first, last in loops:
        inside[first:last + 1] = [True] * (last + 1 - first)
    return inside


def counts(lines):
    """What a golden file keeps of a kernel's text. Loads of global memory by bytes."""
    text = "\n".join(lines)
    found = {name: len(re.findall(pattern, text)) for name, pattern in COUNTED.items()}
    for vector, bits in LOAD.findall(text):
        name = f"ld{int(bits) // 8 * int(vector[1:] or 1 if vector else 1)}"
        found[name] = found.get(name, 0) + 1
    inside = in_loops(lines)
    found["div"] = sum(bool(DIVISION.search(line)) for line in lines)
    found["div_in_loops"] = sum(bool(DIVISION.search(line)) and inside[i] for i, line in enumerate(lines))
    return {name: n for name, n in sorted(found.items()) if n}


def complaints(lines, is_attention):
    for size in COPY.findall("\n".join(lines)):
        if size != "16":
            yield f"cp.async of {size} bytes, 16 is the only size"
            break
    if any(LOCAL.search(line) for line in lines):
        yield "local memory in the PTX: an array indexed at run time"
    if is_attention and counts(lines).get("div_in_loops"):
        yield f"{counts(lines)['div_in_loops']} divisions by run-time integers inside loops"
