#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# mint-score code: verdicts of right, wrong and hostile programs, forms of tests, and what the sandbox keeps in.
load helpers

setup() {
    enter_scratch
    need mint-score
    command -v bwrap >/dev/null || skip "no bubblewrap"
    [ -x /usr/bin/python3 ] || [ -x /usr/local/bin/python3 ] || skip "no python3 of the system"
    printf '%s\n' '{"tests":[],"sequences":[]}' >probe.jsonl
    mint-score code probe.jsonl >/dev/null 2>probe.err || ! grep -q sandbox probe.err ||
        skip "$(cut -c1-200 probe.err)"
}

# one FIELDS TEXT...: a record on stdout, with a sequence for each TEXT
one() {
    local fields=$1
    shift
    jq -nc --argjson f "$fields" '$f + {id: "x", sequences: [$ARGS.positional[] | {text: .}]}' --args "$@"
}

# verdicts FILE: of the tests of each sequence
verdicts() {
    zstd -dcqf "$1" | jq -c '[.sequences[].detail.code.tests]' | tr -d '\n'
}

rewards() {
    zstd -dcqf "$1" | jq -c '[.sequences[].reward]' | tr -d '\n'
}

# mark NAME: makes a folder that all can reach, whose path shows in the arguments of the sandbox
mark() {
    local d
    mkdir "$1"
    d=$PWD/$1
    while [ -O "$d" ] && [ "$d" != / ] && [ "$d" != /tmp ]; do
        chmod a+rx "$d"
        d=$(dirname "$d")
    done
}

# gone MARK: no process with MARK in its arguments is left, within two seconds
gone() {
    for _ in $(seq 20); do
        pgrep -f "$1" >/dev/null || return 0
        sleep 0.1
    done
    fail "left: $(pgrep -af "$1")"
}

@test "right solutions pass, wrong ones do not" {
    jq -c '{id, language, tests, sequences: [
        {text: "So:\n```\(.language)\n\(.solution_ok)```\nDone."}, {text: "```\n\(.solution_wrong)```"}]}' \
        "$MINT_ROOT/tests/data/code/tasks.jsonl" >t.jsonl
    run_tool mint-score code -j 4 --wall-time 60 --cpu-time 20 t.jsonl -o s.zst
    expect 0
    [ "$(rewards s.zst)" = "$(printf '[1,0]%.0s' $(seq 30))" ]
    [ "$(zstd -dcq s.zst | jq -c 'select(.sequences[0].detail.code.failed > 0)')" = "" ]
}

@test "hostile solutions get their verdict and leave nothing behind" {
    local secret=canary-$RANDOM$RANDOM$RANDOM port=1
    mkdir out
    mark mark
    echo kept >out/file
    echo "$secret" >secret
    # a listener on the host that a program must not reach
    /usr/bin/python3 -c '
import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
open("port", "w").write(str(s.getsockname()[1]))
s.accept()
open("connected", "w").write("x")' 3>&- &
    local listener=$!
    for _ in $(seq 50); do
        [ ! -s port ] || break
        sleep 0.1
    done
    port=$(cat port)
    jq -c --arg d "$PWD/out" --arg f "$PWD/secret" --arg p "$port" '
        {id, name, language, tests, expect, sequences: [{text: ("```\n" + .solution + "```" |
            gsub("\\{OUTSIDE_DIR\\}"; $d) | gsub("\\{CANARY_FILE\\}"; $f) | gsub("\\{PORT\\}"; $p))}]}' \
        "$MINT_ROOT/tests/data/code/hostile.jsonl" >h.jsonl
    local start=$SECONDS peak=0 rss
    MINT_CANARY=$secret mint-score code -j 16 --cpu-time 1 --wall-time 4 --read-only "$PWD/mark" h.jsonl \
        -o s.zst 2>err 3>&- &
    local grader=$!
    while rss=$(awk '/^VmRSS/ { print $2 }' "/proc/$grader/status" 2>/dev/null) && [ -n "$rss" ]; do
        [ "$rss" -le "$peak" ] || peak=$rss
        sleep 0.2
    done
    wait "$grader" || fail "status $?: $(cat err)"
    # each of 33 solutions has two tests of at most 4 seconds, and 16 run at a time
    [ $((SECONDS - start)) -lt 60 ] || fail "took $((SECONDS - start)) seconds"
    [ "$peak" -lt 500000 ] || fail "the grader had $peak KiB"
    gone "$PWD/mark"
    kill "$listener"

    zstd -dcq s.zst >s.jsonl
    jq -e . s.jsonl >/dev/null
    iconv -f utf-8 -t utf-8 s.jsonl >/dev/null
    [ "$(wc -l <s.jsonl)" -eq 33 ]
    run jq -r 'select(.expect.verdict != "any" and
        (.expect.verdict == "pass") != (.sequences[0].reward == 1)) | .name' s.jsonl
    [ -z "$output" ] || fail "other verdicts for: $output"
    [ "$(jq -r 'select(.name == "always_equal") | .sequences[0].reward' s.jsonl)" = 0 ]
    lacks "$(cat s.jsonl err)" "$secret"
    # with time enough also where others keep the machine busy
    jq -c 'select(.name == "memory_hog" or .name == "segfault")' h.jsonl >two.jsonl
    mint-score code -j 2 --cpu-time 20 --wall-time 60 two.jsonl --plain >two
    [ "$(jq -c '.sequences[0].detail.code.first | [.verdict, .signal]' two | sort | tr -d '\n')" = '["memory",null]["signal",11]' ]
    [ "$(ls out)" = file ] && [ "$(cat out/file)" = kept ]
    [ ! -e connected ]
    [ ! -e /dev/shm/mint-hostile-left ]
}

@test "forms of tests" {
    {
        one '{"tests":[{"input":"1 2\n","output":"3"},{"stdin":"2 2","stdout":"4\n\n"}]}' \
            $'```python\nprint(sum(map(int, input().split())))\n```'
        one '{"tests":{"inputs":["1","2"],"outputs":["1\n","2\n"]}}' 'print(input())'
        one '{"tests":["assert add(1,2)==3\nassert add([1],[2])==[1,2]","assert add(2,2)==5"]}' \
            $'Here:\n\ndef add(a, b):\n    return a + b\n'
        one '{"tests":[{"call":"f(2)","expect":{"a":[1,2.0],"b":null}},{"call":"f","args":[3],"expect":1}]}' \
            $'def f(n):\n    return {"a": (1, n), "b": None} if n == 2 else True\n'
        one '{"entry_point":"f","tests":"def check(candidate):\n    assert candidate(1) == 2\n"}' \
            $'```\ndef f(x): return x + 1\n```' $'```\ndef f(x): return x\n```'
        one '{"tests":[{"stdin":"","stdout":"a b","args":["a","b"],"expect_exit":3}]}' \
            $'```sh\necho "$@"; exit 3\n```' $'```c\n#include <stdio.h>\nint main(int n,char**v){printf("%s %s",v[1],v[2]);return 3;}\n```'
    } >r.jsonl
    run_tool mint-score code r.jsonl -o s.zst
    expect 0
    [ "$(verdicts s.zst)" = '[["ok","ok"]][["ok","ok"]][["ok","wrong"]][["ok","wrong"]][["ok"],["wrong"]][["ok"],["ok"]]' ]
    run_tool mint-score code --partial --name half r.jsonl -o p.zst
    [ "$(rewards p.zst)" = '[1][1][0.5][0.5][1,0][1,1]' ]
    has "$(zstd -dcq s.zst)" '"first":{"test":1,"verdict":"wrong","got":"4","want":"5"}'
}

@test "asserts see values, not what the solution says about them" {
    local tests='{"setup":"import math","tests":["assert f(2) == 3","assert abs(f(2) - 3) < 1e-6","assert f(2) in [3]",
        "for got, want in zip(map(f, [2]), [3]):\n    assert got == want","assert all(f(x) == x + 1 for x in [2])",
        "assert math.isclose(f(2), 3)"]}'
    one "$tests" 'def f(x): return x + 1' >r.jsonl
    # equal to everything, near to everything, an end of the loop, other builtins, a judge that is looked for
    one "$tests" $'class E(int):\n    def __eq__(s, o): return True\n    __hash__ = None\ndef f(x): return E()' \
        $'class E:\n    def __eq__(s, o): return True\n    __hash__ = int\n    def __sub__(s, o): return s\n    def __abs__(s): return s
    def __lt__(s, o): return True\n    def __float__(s): return 0.0\ndef f(x): return E()' \
        $'def f(x): raise StopIteration' \
        $'import builtins, math\nbuiltins.all = builtins.abs = math.isclose = lambda *a, **k: True\ndef all(x): return True\ndef f(x): return 0' \
        $'import os\nfor fd in range(3, 100):\n    try: os.write(fd, b\'\\0\\0\\0\\x0bV{"v":"ok"}\')\n    except OSError: pass\ndef f(x): return 0' >>r.jsonl
    run_tool mint-score code -j 4 r.jsonl -o s.zst
    expect 0
    [ "$(rewards s.zst)" = '[1][0,0,0,0,0]' ]
    lacks "$(zstd -dcq s.zst | tail -n 1 | jq -c '[.sequences[].detail.code.tests]')" '"ok"'
}

@test "a test whose asserts are all passed over is not passed" {
    local loop='for got, want in zip(f(2), [3, 4]):\n    assert got == want'
    {
        one "{\"tests\":[\"$loop\"]}" 'def f(x): return [3, 4]' 'def f(x): return []'
        one "$(jq -nc '{tests: ["try:\n    f(2)\nexcept ValueError as e:\n    assert str(e) == \"two\""]}')" \
            'def f(x): raise ValueError("two")' 'def f(x): return 0'
        # places that are not to be reached
        one "$(jq -nc '{tests: ["try:\n    f(2)\n    assert False\nexcept ValueError:\n    pass"]}')" \
            'def f(x): raise ValueError("two")' 'def f(x): return 0'
    } >r.jsonl
    run_tool mint-score code r.jsonl -o s.zst
    expect 0
    [ "$(verdicts s.zst)" = '[["ok"],["wrong"]][["ok"],["wrong"]][["ok"],["wrong"]]' ] || fail "$(verdicts s.zst)"
    has "$(zstd -dcq s.zst)" 'no assert was reached'
}

@test "a solution's __builtins__ are not the test's" {
    one '{"tests":["assert __builtins__ and all([f(2) == 3])"]}' \
        $'def f(x): return 0\nclass B(dict): pass\n__builtins__ = B(all=lambda v: True)' >r.jsonl
    run_tool mint-score code r.jsonl -o s.zst
    expect 0
    [ "$(verdicts s.zst)" = '[["wrong"]]' ] || fail "$(verdicts s.zst)"
}

# Each tries to keep far more than the limit of memory, or of time, where a process does not show it.
@test "memory and time that no process shows" {
    local mmap='
import ctypes, os, time
c = ctypes.CDLL(None, use_errno=True)
c.mmap.restype = ctypes.c_void_p
c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
def hold(flags, fd):
    n = 16 << 20
    for i in range(20):
        p = c.mmap(None, n, 3, flags, fd, 0)
        if p == 2**64 - 1: raise MemoryError
        ctypes.memset(p, 1, n)
        c.munmap(ctypes.c_void_p(p + 4096), ctypes.c_size_t(n - 4096))
    time.sleep(0.5)
    print("held")
' sockets='
import os, socket, time
n, k = 0, []
SIZE
for i in range(8):
    r, w = os.pipe()
    if os.fork() == 0:
        while n < 40 << 20 and len(k) < 220:
            pair = socket.socketpair()
            k += pair
            for s in pair:
                if size: s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
                s.setblocking(False)
                try:
                    while True: n += s.send(b"x" * 65536)
                except BlockingIOError: pass
        os.write(w, b"x" * (n >= 30 << 20))
        time.sleep(20)
        os._exit(0)
    os.close(w)
    if not os.read(r, 1): raise MemoryError
print("held")
' leader='
import ctypes, os, threading, time
def work():
    time.sleep(0.3)
    x = b"x" * (60 << 20)
    time.sleep(1)
    os._exit(0)
pids = []
for i in range(4):
    pid = os.fork()
    if pid == 0:
        threading.Thread(target=work).start()
        ctypes.CDLL(None).pthread_exit(None)
    pids.append(pid)
for p in pids: os.waitpid(p, 0)
print("held")
' orphans='
import os, time
for i in range(30):
    r, w = os.pipe()
    if os.fork() == 0:
        if os.fork() == 0:
            t = time.process_time()
            while time.process_time() - t < 0.2: pass
            os.write(w, b"x")
        os._exit(0)
    os.wait()
    os.close(w)
    os.read(r, 1)
print("held")
'
    local t='{"tests":[{"output":"held"}]}'
    {
        one "$t" "$mmap"$'\nhold(0x21, -1)' "$mmap"$'\nhold(1, os.open("/dev/zero", os.O_RDWR))' \
            "${sockets/SIZE/size = 0}" "${sockets/SIZE/size = 1 << 22}" "$leader"
    } >memory.jsonl
    run_tool mint-score code --memory 150M --wall-time 60 --cpu-time 20 -j 2 memory.jsonl -o m.zst
    expect 0
    [ "$(rewards m.zst)" = '[0,0,0,0,0]' ] || fail "$(verdicts m.zst)"
    one "$t" "$orphans" >time.jsonl
    run_tool mint-score code --wall-time 60 --cpu-time 3 time.jsonl -o t.zst
    expect 0
    [ "$(verdicts t.zst)" = '[["timeout"]]' ] || fail "$(verdicts t.zst)"
}

@test "asserts on objects, mutation, exceptions, callbacks, iterators and prints" {
    cat >sol.py <<'END'
import collections, math
class Full(Exception): pass
class Stack:
    def __init__(self, n=2): self.items, self.n = [], n
    def push(self, x):
        if len(self.items) == self.n: raise Full("no room", self.n)
        self.items.append(x)
        return self
    def __len__(self): return len(self.items)
    def __iter__(self): return iter(self.items)
    def __getitem__(self, i): return self.items[i]
    def __eq__(self, o): return isinstance(o, Stack) and self.items == o.items
    def __repr__(self): return "Stack(%r)" % self.items
def sort(a): a.sort()
def count(n):
    for i in range(n): yield i
def apply(f, x): return f(f(x))
def hello(): print("hi", end="")
def total(node):
    s = 0
    while node is not None:
        s += node.val
        node = node.next
    return s
def words(t): return collections.Counter(t.split())
def sum(a, b): return a - b
END
    cat >tests.json <<'END'
["s = Stack(); s.push(1).push(2)\nassert len(s) == 2 and list(s) == [1, 2] and s[0] == 1 and s.n == 2",
"s = Stack(1).push(1)\ntry:\n    s.push(2)\n    assert False\nexcept Full as e:\n    assert e.args == ('no room', 1)",
"assert Stack().push(1) == Stack().push(1) and Stack() != Stack().push(1)\nassert isinstance(Stack(), Stack) and str(Stack()) == 'Stack([])'",
"a = [3, 1, 2]\nassert sort(a) is None\nassert a == [1, 2, 3]",
"assert list(count(3)) == [0, 1, 2] and next(count(2)) == 0",
"assert apply(lambda x: x * 3, 2) == 18",
"import io, contextlib\nb = io.StringIO()\nwith contextlib.redirect_stdout(b): hello()\nassert b.getvalue() == 'hi'",
"class N:\n    def __init__(self, v, n=None): self.val, self.next = v, n\nassert total(N(1, N(2, N(3)))) == 6",
"assert words('a b a') == {'a': 2, 'b': 1}",
"assert math.sqrt(4) == 2 and sum([1, 2]) == 3 and hello is not None",
"try:\n    sort(5)\n    assert False\nexcept AttributeError: pass"]
END
    jq -nc --rawfile s sol.py --slurpfile t tests.json '{tests: $t[0], sequences: [{text: ("```python\n" + $s + "```")}]}' >r.jsonl
    # where only the builtin's name is used, the solution's function is meant
    one '{"tests":["assert sum(5, 3) == 2"]}' $'def sum(a, b): return a - b' >>r.jsonl
    run_tool mint-score code r.jsonl -o s.zst
    expect 0
    [ "$(rewards s.zst)" = '[1][1]' ] || fail "$(zstd -dcq s.zst | jq -c '.sequences[].detail')"
}

@test "the same bytes with any number of jobs" {
    for i in $(seq 5); do
        one "{\"tests\":[{\"input\":\"$i\",\"output\":\"$i\"},\"assert f($i) == 3\"]}" $'def f(x): return {x, 1, "a"}\nprint(input())' \
            'raise ValueError(object(), {"b", "a", "c"})' 'import os; os.kill(os.getpid(), 9)' ''
    done >r.jsonl
    mint-score code -j 1 r.jsonl --plain >a
    mint-score code -j 7 r.jsonl --plain >b
    same a b
    [ "$(wc -l <a)" -eq 5 ]
    has "$(head -n 1 a)" '"signal":9'
}

@test "programs do not read the tool's input" {
    one '{"tests":[{"input":"1","output":"1"}]}' $'print(input())\ntry: input()\nexcept EOFError: pass' >one.jsonl
    for _ in $(seq 20); do cat one.jsonl; done | mint-score code -j 4 --plain >s
    [ "$(wc -l <s)" -eq 20 ]
    [ "$(rewards s)" = "$(printf '[1]%.0s' $(seq 20))" ]
}

@test "nothing lives on when the tool is killed" {
    mark mark-term
    mark mark-kill
    one '{"tests":[{"output":"1"}]}' $'import os, time\nif os.fork() == 0: os.setsid()\ntime.sleep(1000)' >one.jsonl
    for _ in $(seq 8); do cat one.jsonl; done >r.jsonl
    for sig in TERM KILL; do
        local mark=$PWD/mark-${sig,,}
        mint-score code -j 8 --wall-time 500 --read-only "$mark" r.jsonl -o "out-$sig" 3>&- &
        local pid=$!
        for _ in $(seq 100); do
            [ "$(pgrep -fc "bwrap.*$mark")" -lt 16 ] || break
            sleep 0.1
        done
        [ "$(pgrep -fc "bwrap.*$mark")" -ge 16 ]
        kill "-$sig" "$pid"
        wait "$pid" 2>/dev/null || true
        gone "$mark"
    done
    no_leftovers out-TERM
}

@test "control groups, where they were handed over, are gone afterwards" {
    one '{"tests":[{"output":"1"},{"output":"2"}]}' 'print(1)' >r.jsonl
    run_tool mint-score code -v r.jsonl -o s.zst
    expect 0
    local group
    group=$(sed -n 's/^mint-score: control groups in //p' <<<"$stderr")
    [ -n "$group" ] || { has "$stderr" 'no control groups: ' && skip "${stderr#*: }"; }
    [ "$(verdicts s.zst)" = '[["ok","wrong"]]' ]
    [ -z "$(find "$group" -maxdepth 1 -name 'mint.*')" ]
}

@test "a failure of the tool is no reward" {
    one '{"tests":["assert f() == 1"]}' 'def f(): return 1' >r.jsonl
    # no bubblewrap, no user namespaces, no compiler
    run_tool bwrap --dev-bind / / --bind /dev/null "$(readlink -f "$(command -v bwrap)")" "$MINT_BIN/mint-score" code r.jsonl -o out
    expect_error 1 'install the package bubblewrap'
    run_tool bwrap --unshare-user --disable-userns --dev-bind / / "$MINT_BIN/mint-score" code r.jsonl -o out
    expect_error 1 'the limit of user namespaces'
    one '{"tests":[{"output":"1"}]}' $'```c\nint main(){}\n```' >c.jsonl
    local hide=() p
    for p in gcc cc clang; do
        for d in /usr/local/bin /usr/bin; do
            [ ! -e $d/$p ] || hide+=(--bind /dev/null "$(readlink -f $d/$p)")
        done
    done
    run_tool bwrap --dev-bind / / "${hide[@]}" "$MINT_BIN/mint-score" code c.jsonl -o out
    expect_error 1 'install one of gcc cc clang'

    one '{}' x >n.jsonl
    run_tool mint-score code n.jsonl -o out
    expect_error 1 'n.jsonl:1: the record has no "tests" to run'
    one '{"tests":[{"in":1}]}' x >n.jsonl
    run_tool mint-score code n.jsonl -o out
    expect_error 1 'is no test'
    one '{"tests":["assert ("]}' 'def f(): pass' >n.jsonl
    run_tool mint-score code n.jsonl -o out
    expect_error 1 'test 0 cannot be run: SyntaxError'
    one '{"language":"cobol","tests":["x"]}' x >n.jsonl
    run_tool mint-score code n.jsonl -o out
    expect_error 1 'must be one of "python"'
    one '{"language":"c","tests":["assert 1"]}' $'```c\nint x;\n```' >n.jsonl
    run_tool mint-score code n.jsonl -o out
    expect_error 1 'is c, and test 0 for Python'
}

@test "a test that tests nothing is a broken record" {
    local t
    for t in '' '# c' '"""doc"""' pass 'import math' 'x = [1, 2]' 'assert True' 'print("ok")' 'g = lambda: f(1)' \
        $'def test_f():\n    assert f(1) == 3' $'class T:\n    n: int = 0\n    def test(self): assert f(1) == 3' \
        $'try:\n    import math\nexcept ImportError:\n    pass' \
        $'def main():\n    assert f(1) == 3\nif __name__ == "__main__":\n    main()' \
        $'x = 1\nassert x == 1' 'assert sum([1, 2]) == 3' $'try:\n    f(1)\nexcept Exception: pass'; do
        one "$(jq -nc --arg t "$t" '{entry_point: "f", tests: ["assert f(1)", $t]}')" 'def f(x): return 2' >n.jsonl
        run_tool mint-score code n.jsonl -o out
        expect_error 1 'n.jsonl:1: '
        has "$stderr" 'test 1 tests nothing'
        [ ! -e out ]
    done
    one '{"tests":""}' 'y=1' >n.jsonl
    run_tool mint-score code n.jsonl -o out
    expect_error 1 'test 0 tests nothing'
    # whether the solution loads or not
    one '{"tests":["pass"]}' 'import os; os._exit(0)' >n.jsonl
    run_tool mint-score code n.jsonl -o out
    expect_error 1 'test 0 tests nothing'
}

@test "broken tests are noticed whatever the responses are" {
    local t
    # no program, one that does not load, one in another language
    for t in '"assert ("' '"return 1"' '"import no_such_module"' '{"call":"f(","expect":1}' '{"call":"1","expect":1}' \
        '{"call":"max","args":[[1,2]],"expect":2}' '{"call":"x = 1","expect":1}'; do
        one "{\"tests\":[\"assert f(1) == 2\",$t]}" '' 'raise ValueError' $'```c\nint main(){}\n```' >n.jsonl
        run_tool mint-score code n.jsonl -o out
        expect_error 1 'n.jsonl:1: test 1 '
        [[ $stderr =~ 'cannot be run: '|'tests nothing: it passes without any program' ]] || fail "$t: $stderr"
    done
    one '{"tests":[{"output":""},{"input":"1","output":" \n\n"}]}' '' >n.jsonl
    run_tool mint-score code n.jsonl -o out
    expect_error 1 'tests (column 10) tests nothing: a program that does nothing passes'
    {
        # silence is a test among others, and so is a status
        one '{"tests":[{"input":"0","output":""},{"input":"1","output":"1"}]}' $'x = int(input())\nif x: print(x)'
        one '{"tests":[{"output":"","expect_exit":2}]}' 'exit(2)'
        # the builtin cannot do what these want
        one '{"tests":[{"call":"sum(1, 2)","expect":3},{"call":"pow","args":[2],"expect":4}]}' \
            $'def sum(a, b): return a + b\ndef pow(a): return a * a'
        # Python tests are for Python: a program in another language is none, and no fault of the record
        one '{"tests":["assert f() == 1"]}' $'```c\nint f(){return 1;}\n```' $'```\ndef f(): return 1\n```'
    } >good.jsonl
    run_tool mint-score code good.jsonl -o good
    expect 0
    [ "$(rewards good)" = '[1][1][1][0,1]' ]
}

@test "check(candidate) is called, or the record is broken" {
    local t n=0
    for t in $'def check(candidate):\n  assert candidate(1)==3' $'def check(f):\n  assert f(1)==3' \
        $'def check (c):\n  """\ncheck(f)\n"""\n  assert c(1)==3\n# check(f)' \
        $'def check(c):\n  assert c(1)==3\ndef test_check():\n  check(f)' \
        $'def check(c):\n  assert c(1)==3\nif __name__ == "__main__":\n  check(f)'; do
        one "$(jq -nc --arg t "$t" '{entry_point: "f", tests: $t}')" 'def f(x): return 3' 'def f(x): return 2' >c.jsonl
        run_tool mint-score code c.jsonl -o "c$n"
        expect 0
        [ "$(rewards "c$n")" = '[1,0]' ] || fail "$t: $(rewards "c$n")"
        n=$((n + 1))
    done
    for t in $'def check(candidate):\n  assert candidate(1)==3' \
        $'def check(candidate):\n  assert candidate(1)==3\nassert f(1) == 2'; do
        one "$(jq -nc --arg t "$t" '{tests: [$t]}')" 'def f(x): return 2' >c.jsonl
        run_tool mint-score code c.jsonl -o out
        expect_error 1 'test 0 defines check(candidate), which nothing calls: give the record an "entry_point"'
    done
    # what the test calls itself needs no entry_point
    one "$(jq -nc --arg t $'def check(f):\n  assert f(1)==3\ncheck(f)' '{tests: [$t,
        "def check(f):\n  assert f(1)==3\ndef main(): check(f)\nmain()"]}')" 'def f(x): return 3' 'def f(x): return 2' >c.jsonl
    run_tool mint-score code c.jsonl -o own
    [ "$(rewards own)" = '[1,0]' ]
    # and a test of raised errors, of a name, or of an effect is one
    one '{"tests":["try:\n    f(1)\nexcept ValueError: pass\nelse: raise AssertionError","f","x = f","class T:\n    assert f"]}' \
        'def f(x): raise ValueError' >c.jsonl
    run_tool mint-score code c.jsonl -o kinds
    [ "$(rewards kinds)" = '[1]' ]
}

@test "without isolation: only if asked for, with a warning, and no folder is left" {
    mkdir tmp
    one '{"tests":[{"input":"4","output":"4"},"assert f() == 1"]}' \
        $'def f(): return 1\nimport os\nos.makedirs("a/b"); os.chmod("a", 0)\ntry: print(input())\nexcept EOFError: pass' 'while True: pass' >r.jsonl
    TMPDIR=$PWD/tmp run_tool mint-score code --sandbox none --cpu-time 1 --wall-time 2 r.jsonl --plain
    expect 0
    has "$stderr" 'warning: --sandbox none'
    [ "$(verdicts <(echo "$output"))" = '[["ok","ok"],["timeout","timeout"]]' ]
    [ -z "$(ls tmp)" ]
}
