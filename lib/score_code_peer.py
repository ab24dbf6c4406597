# SPDX-License-Identifier: Apache-2.0
# Two processes that use each other's objects by messages: the solution, and the judge that runs the tests.
#
# Plain data (numbers, text, lists, dicts and so on) goes by value, and is built anew from JSON on the other side, so
# that nothing of the sender's code comes with it. Everything else stays where it is: the other side gets a Remote,
# whose operations are messages. The judge trusts nothing that it receives: it answers calls of what its tests handed
# out, and no others.
import json, operator, os

MODULES = {
    "array", "base64", "bisect", "calendar", "cmath", "collections", "copy", "dataclasses", "datetime", "decimal",
    "enum", "fractions", "functools", "hashlib", "heapq", "itertools", "json", "math", "numbers", "operator", "random",
    "re", "statistics", "string", "textwrap", "time", "typing", "unicodedata",
}
FRAME_MAX = 1 << 24
DEPTH_MAX = 100


class Gone(BaseException):
    """The other side has ended."""


class Wire:
    def __init__(self, rd, wr):
        self.rd, self.wr = rd, wr

    def read(self, n):
        parts = []
        while n:
            part = os.read(self.rd, min(n, 1 << 20))
            if not part:
                raise Gone()
            parts.append(part)
            n -= len(part)
        return b"".join(parts)

    def recv(self):
        """The next frame: its kind and what it holds."""
        n = int.from_bytes(self.read(4), "big")
        if not 0 < n <= FRAME_MAX:
            raise Gone()
        data = self.read(n)
        return data[:1], data[1:]

    def send(self, kind, data):
        if len(data) + 1 > FRAME_MAX:
            raise ValueError("a value is too large for a test")
        data = (len(data) + 1).to_bytes(4, "big") + kind + data
        while data:
            data = data[os.write(self.wr, data):]


def unary(name):
    def method(self, *args):
        return self._peer.ask("op", name, self, *args)
    return method


class Remote:
    """An object of the other side."""

    def __init__(self, peer, handle):
        object.__setattr__(self, "_peer", peer)
        object.__setattr__(self, "_handle", handle)

    def __call__(self, *args, **kw):
        return self._peer.call(self, args, kw)

    def __getattr__(self, name):
        # Hooks such as __array_function__ would get what a value is compared with.
        if name.startswith("__") and name not in ("__name__", "__doc__"):
            raise AttributeError(name)
        return self._peer.ask("get", self, name)

    def __setattr__(self, name, value):
        self._peer.ask("set", self, name, value)

    def __iter__(self):
        return self._peer.ask("iter", self)

    def __next__(self):
        return self._peer.ask("next", self)

    def __hash__(self):
        return self._handle

    # Equal only to what is on the same side: the other side's __eq__ never gets to see a value that it was not
    # given, and cannot call itself equal to it.
    def __eq__(self, other):
        if not isinstance(other, Remote):
            return False
        return self._handle == other._handle or self._peer.ask("op", "eq", self, other) is True

    def __ne__(self, other):
        return not self == other

    def __instancecheck__(self, value):
        return isinstance(value, Remote) and self._peer.ask("isinstance", value, self) is True

    def __enter__(self):
        return self._peer.call(self._peer.ask("special", self, "__enter__"), (), {})

    def __exit__(self, kind, value, trace):
        self._peer.call(self._peer.ask("special", self, "__exit__"), (None, None, None), {})


def binary(name):
    # A plain value never goes to the other side as an operand: abs(f(2) - 0.5) < 1e-6 would show it the answer.
    def method(self, other):
        if not isinstance(other, Remote):
            raise TypeError("an object of the solution and a plain value have no operations in common here")
        return self._peer.ask("op", name, self, other)
    return method


def refused(self, other):
    raise TypeError("an object of the solution and a plain value have no operations in common here")


for name in ("lt", "le", "gt", "ge"):
    setattr(Remote, "__%s__" % name, binary(name))
for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or", "xor", "matmul"):
    setattr(Remote, "__%s__" % name, binary(name + "_" if name in ("and", "or") else name))
    setattr(Remote, "__r%s__" % name, refused)
for name in ("neg", "pos", "abs", "invert", "index", "getitem", "setitem", "delitem", "len", "bool", "str", "repr", "int",
             "float", "round", "reversed", "format"):
    setattr(Remote, "__%s__" % name, unary(name))

BUILTINS = {n: getattr(builtins, n) for n in ("len", "bool", "str", "repr", "int", "float", "round", "reversed", "format")}
OPS = {n: getattr(operator, n) for n in (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor", "matmul", "neg",
    "pos", "abs", "invert", "index", "getitem", "setitem", "delitem", "eq", "lt", "le", "gt", "ge")}
OPS.update(BUILTINS)


def restore(old, new):
    """Gives a list, dict, set or bytearray the contents that the other side left in its copy."""
    if type(old) is not type(new):
        return
    if isinstance(old, (list, bytearray)):
        old[:] = new
    else:
        old.clear()
        old.update(new)


class Peer:
    def __init__(self, wire, judge):
        self.wire, self.judge = wire, judge
        self.objects, self.handles = {}, {}
        self.errors = {}  # exception classes of the other side, by name
        self.printed = None

    # --- values

    def export(self, v):
        h = self.handles.get(id(v))
        if h is None:
            h = len(self.objects) + 1
            self.handles[id(v)] = h
            self.objects[h] = v
        return h

    def enc(self, v, depth=0):
        t = type(v)
        if v is None or t is bool or t is float or t is str:
            return v
        if depth > DEPTH_MAX:
            raise ValueError("a value is nested too deeply for a test")
        if t is int:
            return v if -(1 << 53) <= v <= 1 << 53 else {"i": hex(v)}
        if t is Remote:
            return {"h": v._handle}
        d = depth + 1
        if t is list:
            return [self.enc(x, d) for x in v]
        if isinstance(v, tuple):
            return {"t": [self.enc(x, d) for x in v]}
        if isinstance(v, dict):
            return {"d": [[self.enc(k, d), self.enc(x, d)] for k, x in v.items()]}
        if isinstance(v, (set, frozenset)):
            return {"f" if isinstance(v, frozenset) else "s": [self.enc(x, d) for x in v]}
        if isinstance(v, list):
            return [self.enc(x, d) for x in v]
        if isinstance(v, (bytes, bytearray)):
            return {"b" if isinstance(v, bytes) else "B": v.hex()}
        if t is complex:
            return {"c": [v.real, v.imag]}
        if t is range:
            return {"g": [self.enc(x) for x in (v.start, v.stop, v.step)]}
        return self.enc_rare(v, t, d)

    def enc_rare(self, v, t, d):
        where = t.__module__.split(".")[0]
        if isinstance(v, int):
            return self.enc(int(v), d)
        if isinstance(v, float):
            return float(v)
        if isinstance(v, str):
            return str.__str__(v)
        if where == "numpy" and hasattr(v, "tolist"):
            return self.enc(v.tolist(), d)
        if where == "fractions" and t.__name__ == "Fraction":
            return {"F": [self.enc(v.numerator), self.enc(v.denominator)]}
        if where in ("decimal", "_decimal", "_pydecimal") and t.__name__ == "Decimal":
            return {"D": str(v)}
        if where == "datetime" and t.__name__ in ("date", "datetime", "time"):
            return {"T": [t.__name__, v.isoformat()]}
        if where == "datetime" and t.__name__ == "timedelta":
            return {"T": ["timedelta", [v.days, v.seconds, v.microseconds]]}
        if where == "collections" and t.__name__ == "deque":
            return {"q": [self.enc(x, d) for x in v]}
        if t is type(sys):
            return {"r": self.export(v), "m": v.__name__}
        if isinstance(v, type) and issubclass(v, Exception):
            return {"r": self.export(v), "x": [c.__name__ for c in v.__mro__]}
        return {"r": self.export(v)}

    def dec(self, v, depth=0):
        t = type(v)
        if t is list:
            return [self.dec(x) for x in v]
        if t is not dict:
            return v
        if "r" in v:
            return self.dec_remote(v)
        (kind, x), = v.items()
        if kind == "i":
            return int(x, 16)
        if kind == "h":
            return self.objects[x]
        if kind == "t":
            return tuple([self.dec(e) for e in x])
        if kind == "d":
            return {self.dec(k): self.dec(e) for k, e in x}
        if kind == "s":
            return {self.dec(e) for e in x}
        if kind == "f":
            return frozenset([self.dec(e) for e in x])
        if kind == "b":
            return bytes.fromhex(x)
        if kind == "B":
            return bytearray.fromhex(x)
        if kind == "c":
            return complex(*x)
        if kind == "g":
            return range(*[self.dec(e) for e in x])
        return self.dec_rare(kind, x)

    def dec_rare(self, kind, x):
        import collections, datetime, decimal, fractions
        if kind == "q":
            return collections.deque([self.dec(e) for e in x])
        if kind == "F":
            return fractions.Fraction(self.dec(x[0]), self.dec(x[1]))
        if kind == "D":
            return decimal.Decimal(str(x))
        if kind == "T" and x[0] == "timedelta":
            return datetime.timedelta(*x[1])
        if kind == "T" and x[0] in ("date", "datetime", "time"):
            return getattr(datetime, x[0]).fromisoformat(x[1])
        raise ValueError("a value of no known kind")

    def dec_remote(self, v):
        handle = v["r"]
        if type(handle) is not int:
            raise ValueError("a value of no known kind")
        if v.get("m") in MODULES:
            return __import__(v["m"])
        if "x" in v:
            return self.error_class([str(n) for n in v["x"]])
        return Remote(self, handle)

    # --- exceptions

    def error_class(self, names):
        """The class of that name: Python's own, or one made here that stands for the other side's."""
        own = getattr(builtins, names[0], None)
        if isinstance(own, type) and issubclass(own, Exception):
            return own
        if names[0] not in self.errors:
            base = self.error_class(names[1:]) if names[1:] else Exception
            self.errors[names[0]] = type(names[0], (base,), {})
        return self.errors[names[0]]

    def enc_error(self, e):
        try:
            args = self.enc(list(e.args))
        except Exception:
            args = []
        return [[c.__name__ for c in type(e).__mro__], args, type(e).__name__ + ": " + str(e)]

    def dec_error(self, m, iterating):
        kind = self.error_class([str(n) for n in m[0]])
        # Would end a loop of the test in silence.
        if issubclass(kind, (StopIteration, StopAsyncIteration)) and not iterating:
            m = [["RuntimeError"], ["the solution raised StopIteration"], ""]
            kind = RuntimeError
        try:
            error = kind(*self.dec(m[1]))
        except Exception:
            error = RuntimeError(str(m[2]))
        error.from_solution = True
        return error

    # --- messages

    def send(self, m):
        self.wire.send(b"M", json.dumps(m).encode())

    def recv(self):
        kind, data = self.wire.recv()
        if kind != b"M":
            raise Gone()
        return json.loads(data)

    def ask(self, op, *args):
        return self.ask_raw(op, [self.enc(a) for a in args])[0]

    def ask_raw(self, op, args):
        """The value of the answer, and what became of the arguments."""
        self.send([op, args])
        while True:
            m = self.recv()
            if m[0] == "value":
                return self.dec(m[1]), m[2]
            if m[0] == "error":
                raise self.dec_error(m[1:], op == "next")
            if m[0] == "print":
                sys.stdout.write(str(m[1]))
            else:
                self.serve(m)

    def call(self, f, args, kw):
        value, changed = self.ask_raw("call", [self.enc(f), [self.enc(a) for a in args],
                                               [[k, self.enc(a)] for k, a in kw.items()]])
        for i, new in changed:
            restore(args[i], self.dec(new))
        return value

    def serve(self, m):
        try:
            op, args = m
            changed = []
            if op == "call":
                value, changed = self.do_call(*args)
            else:
                value = self.do(op, [self.dec(a) for a in args])
            self.flush()
            answer = ["value", self.enc(value), changed]
        except Exception as e:
            self.flush()
            answer = ["error"] + self.enc_error(e)
        self.send(answer)

    def flush(self):
        """What was printed meanwhile goes to the other side."""
        if self.printed is not None and self.printed.tell():
            self.send(["print", self.printed.getvalue()])
            self.printed.seek(0)
            self.printed.truncate()

    def do_call(self, f, args, kw):
        f = self.dec(f)
        own = [self.dec(a) for a in args]
        if self.judge and not callable(f):
            raise TypeError("not for the solution")
        value = f(*own, **{k: self.dec(a) for k, a in kw})
        changed = []
        for i, a in enumerate(own):
            if isinstance(a, (list, dict, set, bytearray)):
                new = self.enc(a)
                if new != args[i]:
                    changed.append([i, new])
        return value, changed

    def may(self, op, args):
        """What the judge does for the solution: with objects of classes that the test defines, and iterators."""
        of_test = type(args[0]).__module__ == "__test__"
        if op == "next":
            return True
        if op in ("get", "set"):
            return of_test and type(args[1]) is str and not args[1].startswith("_")
        if op == "op":
            return all(type(a).__module__ in ("__test__", "builtins") for a in args[1:]) and \
                any(type(a).__module__ == "__test__" for a in args[1:])
        return op == "iter" and of_test

    def do(self, op, args):
        if self.judge and not self.may(op, args):
            raise TypeError("not for the solution")
        if op == "global":
            return self.space[args[0]]
        if op == "get":
            return getattr(args[0], args[1])
        if op == "set":
            return setattr(args[0], args[1], args[2])
        if op == "iter":
            return iter(args[0])
        if op == "next":
            return next(args[0])
        if op == "isinstance":
            return isinstance(args[0], args[1])
        if op == "special":
            return getattr(args[0], args[1])
        return OPS[args[0]](*args[1:])
