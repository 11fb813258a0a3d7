"""Where memory comes from, in the most obvious way: lists and sets, searched from the front. Used by
simulate_policies.py.

Every pool has take(h) -> (address, granted) or None, give(address, granted), free(), largest(),
n_chunks(), and fits_empty(h).
"""


def power_of_two(h):
    """The least power of two that is at least h."""
    q = 1
    while q < h:
        q *= 2
    return q


class Buddy:
    """Self-aligned power-of-two roots from address 0; the smallest free chunk that suffices, lowest
    address among equals; halves go back level by level; buddies merge inside their root."""
    has_places = True

    def __init__(self, slots):
        self.roots = []
        address = 0
        for bit in reversed(range(slots.bit_length())):
            if slots >> bit & 1:
                self.roots.append((address, 1 << bit))
                address += 1 << bit
        self.chunks = set(self.roots)

    def fits_empty(self, h):
        return any(size >= power_of_two(h) for _, size in self.roots)

    def take(self, h):
        q = power_of_two(h)
        good = [(size, address) for address, size in self.chunks if size >= q]
        if not good:
            return None
        size, address = min(good)
        self.chunks.remove((address, size))
        while size > q:
            size //= 2
            self.chunks.add((address + size, size))
        return address, q

    def give(self, address, q):
        while (address, q) not in self.roots:
            buddy = address ^ q
            if (buddy, q) not in self.chunks:
                break
            self.chunks.remove((buddy, q))
            address, q = min(address, buddy), 2 * q
        self.chunks.add((address, q))

    def free(self):
        return sum(size for _, size in self.chunks)

    def largest(self):
        return max((size for _, size in self.chunks), default=0)

    def n_chunks(self):
        return len(self.chunks)


class Ideal:
    """Any free slots will do."""
    has_places = False

    def __init__(self, slots):
        self.slots, self.left = slots, slots

    def fits_empty(self, h):
        return h <= self.slots

    def take(self, h):
        if h > self.left:
            return None
        self.left -= h
        return -1, h

    def give(self, address, q):
        self.left += q

    def free(self):
        return self.left

    largest = free

    def n_chunks(self):
        return 1 if self.left else 0


class Runs:
    """An array of slots; `place` chooses among the free runs (address, length) that suffice."""
    has_places = True

    def __init__(self, slots, place):
        self.used = [False] * slots
        self.place = place
        self.behind = 0  # end of the last allocation

    def runs(self):
        out, begin = [], None
        for k, used in enumerate(self.used + [True]):
            if not used and begin is None:
                begin = k
            if used and begin is not None:
                out.append((begin, k - begin))
                begin = None
        return out

    def fits_empty(self, h):
        return h <= len(self.used)

    def take(self, h):
        good = [run for run in self.runs() if run[1] >= h]
        if not good:
            return None
        if self.place == "first":
            address = good[0][0]
        elif self.place == "best":
            address = min(good, key=lambda run: (run[1], run[0]))[0]
        else:  # next: the first that begins at or behind the last allocation's end, else from 0 on
            address = next((a for a, _ in good if a >= self.behind), good[0][0])
        self.used[address:address + h] = [True] * h
        self.behind = address + h
        return address, h

    def give(self, address, q):
        self.used[address:address + q] = [False] * q

    def free(self):
        return self.used.count(False)

    def largest(self):
        return max((length for _, length in self.runs()), default=0)

    def n_chunks(self):
        return len(self.runs())


def make_pool(name, slots):
    if name == "buddy":
        return Buddy(slots)
    if name == "ideal":
        return Ideal(slots)
    return Runs(slots, name.removesuffix("-fit"))


class Blocks:
    """Blocks of a manager with a prefix cache of one LRU list, after docs/blockmgr.md.

    A block is [references, content or None, is it the content's main block]. `main` finds the main
    block of a content, `cached` lists the unreferenced ones, oldest first. A content is the tuple of
    all tokens from the beginning, so equal contents are equal prefixes."""

    def __init__(self, n):
        self.free, self.cached, self.main, self.spares = n, [], {}, {}

    def available(self):
        return self.free + len(self.cached)

    def find(self, contents):
        """Main blocks of the longest prefix of `contents` that is there."""
        out = []
        for content in contents:
            if content not in self.main:
                break
            out.append(self.main[content])
        return out

    def claim(self, block):
        if block[0] == 0:
            self.cached = [b for b in self.cached if b is not block]
        block[0] += 1

    def take(self):
        """A fresh block; the caller knows that there is one."""
        if self.free:
            self.free -= 1
        else:
            del self.main[self.cached.pop(0)[1]]
        return [1, None, False]

    def publish(self, block, content):
        """The block is full of this content."""
        if block[1] is not None:
            return
        block[1] = content
        old = self.main.get(content)
        if old is not None and old[0] > 0:
            self.spares.setdefault(content, []).append(block)
            return
        if old is not None:  # nobody refers to the old one: it is freed in favour of the new one
            self.cached = [b for b in self.cached if b is not old]
            self.free += 1
        self.main[content], block[2] = block, True

    def drop(self, block):
        block[0] -= 1
        if block[0] > 0:
            return
        content = block[1]
        if content is None:
            self.free += 1
        elif not block[2]:
            self.spares[content] = [b for b in self.spares[content] if b is not block]
            self.free += 1
        elif self.spares.get(content):  # the oldest duplicate takes over
            heir = self.spares[content].pop(0)
            self.main[content], heir[2] = heir, True
            self.free += 1
        else:
            self.cached.append(block)
