# SPDX-License-Identifier: Apache-2.0
# The judge: runs tests (asserts and other statements) in a process of its own, where the names of the solution stand
# for objects in another. One child a test, so that no test sees another's traces. No solution runs here.
import ast, io, signal

EXAMINE_SECONDS = 10


class Noted(ast.NodeTransformer):
    """Asserts that leave a note when they are reached, and, of a == b, both values for the message."""

    def __init__(self):
        self.asserts = 0

    def visit_Assert(self, node):
        t = node.test
        if isinstance(t, ast.Constant):  # assert False: a place that is not to be reached
            return node
        self.asserts += 1
        if isinstance(t, ast.Compare) and len(t.ops) == 1 and isinstance(t.ops[0], ast.Eq):
            node.test = ast.copy_location(ast.Call(ast.Name("__equal__", ast.Load()), [t.left, t.comparators[0]], []), t)
        return [ast.copy_location(s, node) for s in ast.parse("__ran__.add('assert')").body] + [node]


def short(v):
    try:
        text = "an object of the solution" if type(v) is Remote else repr(v)
    except Exception:
        text = "?"
    return text if len(text) <= 200 else text[:200] + "..."


def bind(peer, space, names, trees):
    """The solution's names that the tests use. One that Python has too is Python's, so that no solution replaces all()
    or isinstance(), unless it is the only thing that the tests could mean."""
    used, made = set(), {"__ran__", "__equal__"}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                (used if isinstance(node.ctx, ast.Load) else made).add(node.id)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                made.add(node.name)
            elif isinstance(node, ast.arg):
                made.add(node.arg)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                made.update((a.asname or a.name).split(".")[0] for a in node.names)
    free = used - made
    others = [n for n in free if not hasattr(builtins, n)]
    for n in used & set(names):
        if n not in space and (not hasattr(builtins, n) or not others):
            space[n] = peer.ask("global", n)


class Broken(Exception):
    """A test that says nothing about a program."""


def complete(tree, entry):
    """Adds what HumanEval leaves to others: the call of check(candidate), made where the test has not made it."""
    checks = [s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name == "check" and
              (s.args.posonlyargs or s.args.args or s.args.vararg)]
    if checks and entry:
        for s in checks:
            s.body[:0] = ast.parse("__ran__.add('check')").body
        tree.body += ast.parse("'check' in __ran__ or check(%s)" % entry).body
    elif checks and not any(isinstance(n, ast.Name) and n.id == "check" and isinstance(n.ctx, ast.Load)
                            for s in tree.body if s not in checks for n in ast.walk(s)):
        raise Broken("defines check(%s), which nothing calls: give the record an \"entry_point\", the name of the "
                     "function to check" % ast.unparse(checks[-1].args))


def parse(task):
    """The statements of the setup and of the test, as trees and compiled, and how many asserts the test has."""
    try:
        trees = [ast.parse(task["setup"], "setup"), ast.parse(task["test"], "test")]
        complete(trees[1], task.get("entry"))
        noted = Noted()
        trees[1] = ast.fix_missing_locations(noted.visit(trees[1]))
        return trees, [compile(tree, "test", "exec") for tree in trees], noted.asserts
    except Broken:
        raise
    except Exception as e:
        raise Broken("cannot be run: %s: %s" % (type(e).__name__, e))


def run(trees, codes, asserts, peer, names):
    """Runs a test with the names of a solution: the verdict. A test with asserts has to come by one of them."""
    seen, ran = {}, set()

    def equal(a, b):
        ok = a == b
        if not ok:
            seen["got"], seen["want"] = short(a), short(b)
        return ok

    module = type(sys)("__test__")
    sys.modules["__test__"] = module
    space = module.__dict__
    space["__equal__"] = equal
    space["__ran__"] = ran
    try:
        bind(peer, space, names, trees)
        for code in codes:
            exec(code, space)
    except AssertionError as e:
        return dict({"v": "wrong", "message": str(e)[:400]}, **seen)
    except Gone:
        raise
    except BaseException as e:
        if isinstance(e, ModuleNotFoundError) and not hasattr(e, "from_solution"):
            raise Broken("cannot be run: %s" % e)
        return {"v": "error", "message": (type(e).__name__ + ": " + str(e))[:400]}
    return {"v": "unmet" if asserts and "assert" not in ran else "ok"}


def meet(task, peer):
    """A test meets a solution."""
    test = parse(task)
    m = peer.recv()
    if m[0] != "value":
        return {"v": "error", "message": str(m[3]) if len(m) > 3 else "the solution did not load"}
    # what a module has by itself (__builtins__) is the test's own
    return run(*test, peer, [n for n in m[1] if type(n) is str and not n.startswith("__")])


def examine(task):
    """A test without any solution, that one must not pass."""
    answer = run(*parse(task), None, [])
    if answer["v"] in ("ok", "unmet"):
        raise Broken("tests nothing: it passes without any program")
    return answer


def examine_call(task):
    """The value of a call without any solution, for others to compare."""
    try:
        compile(task["call"], "call", "eval")
    except Exception as e:
        raise Broken("cannot be run: %s: %s" % (type(e).__name__, e))
    return {"v": "value", "value": json.loads(json.dumps(evaluate(task, {}), default=plain, allow_nan=False))}


def judge(wire, kind, data):
    try:
        task = json.loads(data)
        if kind == b"T":
            answer = meet(task, Peer(wire, True))
        else:
            answer = examine_call(task) if "call" in task else examine(task)
    except Gone:
        answer = {"v": "gone"}
    except Broken as e:
        answer = {"v": "bad", "message": str(e)}
    except BaseException as e:
        answer = {"v": "error", "message": (type(e).__name__ + ": " + str(e))[:400]}
    wire.send(b"V", json.dumps(answer).encode())


def main():
    wire = Wire(os.dup(0), os.dup(1))
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    while True:
        kind, data = wire.recv()
        if kind not in (b"T", b"C"):
            continue  # meant for a test that has ended
        pid = os.fork()
        if pid == 0:
            sys.stdout = io.StringIO()
            if kind == b"C":
                signal.alarm(EXAMINE_SECONDS)
            judge(wire, kind, data)
            os._exit(0)
        if os.waitpid(pid, 0)[1]:
            wire.send(b"V", b'{"v":"error","message":"the test ended the process that it ran in"}')
            if kind == b"T":
                return  # who knows what it left unread


try:
    main()
except Gone:
    pass
