#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pairs of formulas that are equal, or are not, as SymPy says: tests/data/math/sympy_pairs.jsonl.

Usage: make_math_pairs.py >tests/data/math/sympy_pairs.jsonl      (needs sympy; random seed fixed)

Each line holds two LaTeX formulas and whether they are equal for all values (where both have one).
An equal pair is one expression in two forms that SymPy made (expanded, factored, over a common
denominator, with rational denominators, as a sum of parts); an unequal pair differs by a small
change, and SymPy finds a place where the two values differ by more than rounding.
"""
import json
import random
import signal

import sympy as sp

rnd = random.Random(20240607)
x, y, n, t = sp.symbols("x y n t")
pos = sp.symbols("a b", positive=True)
a, b = pos


def small():
    return sp.Integer(rnd.choice([-7, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 9, 12]))


def rational():
    return sp.Rational(int(small()), rnd.randint(1, 12))


def polynomial(vs, degree):
    out = sp.Integer(0)
    for _ in range(rnd.randint(2, 4)):
        term = rational()
        for v in vs:
            term *= v ** rnd.randint(0, degree)
        out += term
    return out


def product():
    return sp.Mul(*[(rnd.choice([x, y, n]) + small()) ** rnd.randint(1, 3) for _ in range(rnd.randint(2, 3))])


def ratio():
    return polynomial([x], 2) / (x ** rnd.randint(1, 2) + rnd.randint(1, 5))


def radicals():
    return sum(rational() * sp.sqrt(rnd.randint(2, 60)) for _ in range(rnd.randint(1, 3))) + rational()


def surd_ratio():
    return (small() + sp.sqrt(rnd.randint(2, 11))) / (rnd.randint(4, 9) + sp.sqrt(rnd.randint(2, 13)))


def constants():
    k = rnd.choice([sp.pi, sp.E, sp.log(rnd.randint(2, 9)), sp.sqrt(rnd.randint(2, 9)), sp.Rational(1, 3) ** sp.Rational(1, 3)])
    return rational() * k + rational() * rnd.choice([sp.pi, sp.E, sp.Integer(1), sp.sqrt(5)])


def trig():
    return rnd.choice([
        sp.sin(2 * x) + small(), sp.cos(2 * t) * rational(), sp.sin(x) ** 2 + small() * sp.cos(x) ** 2,
        sp.tan(x) * sp.cos(x), sp.cos(sp.pi / rnd.choice([3, 4, 6, 12])) * small(), sp.sin(sp.pi / rnd.choice([5, 8, 10]))])


def powers():
    return rnd.choice([
        2 ** (n + rnd.randint(1, 4)), sp.exp(rnd.randint(2, 5) * x), (a * b) ** rnd.randint(2, 4) * a ** rational(),
        sp.exp(x) * sp.exp(small() * y), sp.sqrt(a) * a ** 2, 3 ** (2 * n) + small()])


def logs():
    return rnd.choice([
        sp.log(a * b ** rnd.randint(2, 4)), sp.log(a / b) * small(), sp.log(rnd.choice([8, 12, 18, 72])) + rational(),
        sp.log(a) + sp.log(b), sp.log(sp.Rational(rnd.randint(2, 9), rnd.randint(10, 15)))])


def complexes():
    return (small() + small() * sp.I) * (small() + small() * sp.I) / (rnd.randint(1, 3) + sp.I)


FORMS = [
    sp.expand, sp.factor, sp.together, sp.apart, sp.radsimp, sp.simplify, sp.cancel,
    lambda e: sp.expand(e, trig=True), sp.trigsimp, sp.powsimp, sp.expand_log,
    lambda e: sp.logcombine(e, force=True), sp.nsimplify, lambda e: sp.expand_complex(e),
    lambda e: e.subs(x, x + 1).expand().subs(x, x - 1),
]
MAKERS = [lambda: polynomial([x, y], 3), product, ratio, radicals, surd_ratio, constants, trig, powers, logs, complexes]


def latex(e):
    return sp.latex(e, ln_notation=True)


def differs(p, q):
    """Is there a place where they differ for certain?"""
    for k in range(1, 6):
        at = {v: sp.Rational(7 * k + i, 5 + 2 * i) for i, v in enumerate([x, y, n, t, a, b])}
        d = sp.N((p - q).subs(at), 40)
        if d.is_number and abs(d) > sp.Float("1e-25", 40):
            return True
    return False


def same(p, q):
    for k in range(1, 8):
        at = {v: sp.Rational(5 * k + 3 * i, 7 + i) for i, v in enumerate([x, y, n, t, a, b])}
        d = sp.N((p - q).subs(at), 60, chop=True)
        if not d.is_number or abs(d) > sp.Float("1e-40", 60):
            return False
    return sp.simplify(p - q) == 0


def changed(e):
    kind = rnd.randint(0, 4)
    if kind == 0:
        return e + sp.Rational(1, rnd.choice([1, 2, 100]))
    if kind == 1:
        return -e
    if kind == 2:
        return e * sp.Rational(rnd.choice([2, 3, 10, 100]), 1)
    if kind == 3:
        return e.subs(x, x + 1) if e.has(x) else e + sp.sqrt(2) / 1000
    return e + rnd.choice([sp.pi, sp.sqrt(3), sp.Rational(1, 10 ** 12)])


def too_long(*_):
    raise TimeoutError


def main():
    signal.signal(signal.SIGALRM, too_long)
    seen, counts = set(), {True: 0, False: 0}
    per_kind = 20
    for maker in MAKERS:
        equal = unequal = tries = 0
        while (equal < per_kind or unequal < per_kind) and tries < 400:
            tries += 1
            want = equal < per_kind
            signal.alarm(5)  # some forms take for ever
            try:
                e = maker()
                form = rnd.choice(FORMS)
                other = form(e if want else changed(e))
                good = latex(other) != latex(e) and (same(e, other) if want else differs(e, other))
            except Exception:  # a form that this expression does not have
                good = False
            finally:
                signal.alarm(0)
            if not good:
                continue
            p, q = latex(e), latex(other)
            if (p, q) in seen or len(p) > 300 or len(q) > 300:
                continue
            seen.add((p, q))
            counts[want] += 1
            equal += want
            unequal += not want
            print(json.dumps({"id": f"sp{len(seen):03d}", "a": p, "b": q, "equal": want}))


if __name__ == "__main__":
    main()
