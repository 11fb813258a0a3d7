"""What ptxas made of a kernel: the machine code in a cubin, and what it printed.

The machine code is 16 bytes an instruction on these targets, its low 12 bits the opcode. A jump's
distance, in fours from the next instruction, is in bits 34 to 81; from sm_90 on these are its upper
bits, and the lowest eight are in bits 16 to 23. (Held against what nvdisasm 13 says of 4,000 jumps.)
"""
import re
import shutil
import struct
import subprocess

OPCODES = {"HMMA": 0x23c, "LDGSTS": 0xfae, "LDSM": 0x83b, "MOVM": 0x23a, "LDL": 0x983, "STL": 0x387}
BRA = (0x947, 0x547)  # by a predicate of the thread, of the warp

# Per SM: registers, bytes of shared memory, threads, CTAs (CUDA C++ Programming Guide, table of
# technical specifications per compute capability), and what a CTA may opt in to.
SMS = {
    80: (65536, 164 * 1024, 2048, 32, 163 * 1024), 86: (65536, 100 * 1024, 1536, 16, 99 * 1024),
    89: (65536, 100 * 1024, 1536, 24, 99 * 1024), 90: (65536, 228 * 1024, 2048, 32, 227 * 1024),
    100: (65536, 228 * 1024, 2048, 32, 227 * 1024), 120: (65536, 100 * 1024, 1536, 24, 99 * 1024),
}


def resources(text):
    """{mangled name: {registers, stack, spills, shared}} of what ptxas -v says"""
    found = {}
    for part in text.split("Compiling entry function '")[1:]:
        stack = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
        used = re.search(r"Used (\d+) registers", part)
        shared = re.search(r"(\d+) bytes smem", part)
        found[part[:part.index("'")]] = {
            "registers": int(used[1]), "stack": int(stack[1]), "spills": int(stack[2]) + int(stack[3]),
            "shared": int(shared[1]) if shared else 0}
    return found


def code_of(cubin):
    """{mangled name: its instructions as numbers}, from the ELF sections named .text.NAME"""
    data = cubin.read_bytes()
    offset, = struct.unpack_from("<Q", data, 0x28)
    size, number, names_at = struct.unpack_from("<HHH", data, 0x3a)
    headers = [struct.unpack_from("<IIQQQQ", data, offset + i * size) for i in range(number)]
    names = headers[names_at][4]
    code = {}
    for name, _, _, _, at, length in headers:
        start = names + name
        text = data[start:data.index(b"\0", start)].decode()
        if text.startswith(".text."):
            code[text[6:]] = [int.from_bytes(data[i:i + 16], "little") for i in range(at, at + length, 16)]
    return code


def census(code):
    return {name: sum(word & 0xfff == opcode for word in code) for name, opcode in OPCODES.items()}


def jump_of(word, sm):
    """Bytes from the next instruction to a jump's target."""
    distance = word >> 34 & (1 << 48) - 1
    distance -= (distance >> 47) << 48
    if sm >= 90:
        distance = (distance << 8) + (word >> 16 & 0xff)
    return distance * 4


def loops(code, sm):
    """[(first, last)] of backward jumps"""
    for at, word in enumerate(code):
        if word & 0xfff not in BRA:
            continue
        first = at + 1 + jump_of(word, sm) // 16
        if 0 <= first < at:
            yield first, at


def loop_of(code, sm, least=1):
    """The shortest loop with at least so many HMMAs: (instructions from the first of them to its jump,
    instructions in all, HMMAs); zeros: there is none."""
    best = 0, 0, 0
    for first, last in loops(code, sm):
        products = [i for i in range(first, last) if code[i] & 0xfff == OPCODES["HMMA"]]
        if len(products) >= least and (not best[1] or last - first < best[1]):
            best = last - products[0], last - first + 1, len(products)
    return best


def blocks_per_sm(sm, registers, n_threads, shared_bytes):
    """CTAs that an SM holds at once: registers go to warps in 256s, warps to four schedulers alike,
    shared memory in 128s with 1 KiB of the system's beside each CTA."""
    n_registers, n_shared, max_threads, max_blocks, opt_in = SMS[sm]
    if shared_bytes > opt_in:
        return 0
    warps = -(-n_threads // 32)
    of_warp = -(-registers * 32 // 256) * 256
    by_registers = n_registers // of_warp // 4 * 4 // warps if registers else max_blocks
    by_shared = n_shared // (-(-shared_bytes // 128) * 128 + 1024)
    return min(by_registers, by_shared, max_threads // (warps * 32), max_blocks)


def demangled(names):
    """{mangled: readable, without its parameters and namespaces}"""
    names = list(names)
    if not names:
        return {}
    plain = names
    if shutil.which("c++filt"):
        done = subprocess.run(["c++filt"], input="\n".join(names), text=True, capture_output=True, check=True)
        plain = done.stdout.splitlines()
    return {name: readable(text) for name, text in zip(names, plain)}


def readable(text):
    text = re.sub(r"\(anonymous namespace\)::|^void |\bpkv__|\(int\)|\(bool\)", "", text)
    depth, end = 0, len(text)
    for at, letter in enumerate(text):  # the parameters begin at the first bracket outside of <>
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            end = at
            break
    return re.sub(r"\s+", "", text[:end])
