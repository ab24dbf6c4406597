# SPDX-License-Identifier: Apache-2.0
# From the records of a benchmark (lib.sh) to one object, and from that to a table.

def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
# Half of what lies between the quarters (of four and more), over the median.
def spread: sort as $v | (length / 4 | floor) as $q | if length > 1 and median != 0 then ($v[-1 - $q] - $v[$q]) / 2 / median else null end;
def less_is_better: . == "s" or . == "ms" or . == "GB";

# Rows of one case: mint first, then peers with how many times mint is ahead of them.
def rows:
    (reduce .[].who as $w ([]; if index($w) then . else . + [$w] end)) as $whos |
    . as $all | .[0].unit as $unit |
    [$whos[] as $w | [$all[] | select(.who == $w)] |
        {case: .[0].case, who: $w, $unit, median: (map(.value) | median), spread: (map(.value) | spread), n: length,
         cores: (map(.cores) | median),
         of_limit: ([.[] | select(.limit != null) | .value / .limit] | if length > 0 then median else null end),
         bound: .[0].bound}] |
    (map(select(.who == "mint"))[0].median) as $mint |
    map(. + {mint_is: (if .who == "mint" or $mint == null or $mint == 0 or .median == 0 then null
        elif $unit | less_is_better then .median / $mint else $mint / .median end)});

# The exponent of growth from the first to the last of some points.
def exponent(f):
    .[0] as $a | .[-1] as $b | ($a | f) as $fa | ($b | f) as $fb |
    if length < 2 or $fa <= 0 or $fb <= 0 or $a.x == $b.x then null else ($fb / $fa | log) / ($b.x / $a.x | log) end;

def series:
    (reduce .[].series as $s ([]; if index($s) then . else . + [$s] end)) as $names | . as $all |
    [$names[] as $s | [$all[] | select(.series == $s)] |
        {series: $s, points: ., seconds: exponent(.cpu - .base), memory: exponent(.rss), must: exponent(.work)}];

def judged($rows; $goals):
    $goals | map(. as $g | [$rows[] | select(.case == $g.case)] as $r | ($r | map(select(.who == "mint"))[0]) as $mint |
        (if $g.kind == "limit" then $mint.of_limit elif $g.kind == "most" or $g.kind == "least" then $mint.median
            else [$r[].mint_is | values] | min end) as $is |
        . + {$is, unit: $mint.unit, met: (if $is == null then null
            elif $g.kind == "most" or ($g.kind == "limit" and ($mint.unit | less_is_better)) then $is <= $g.factor
            else $is >= $g.factor end)});

def machine: map(.probe | values) | {isa: .[0].isa, threads: .[0].threads, probes: length} +
    ({bf16_peak_gflops: map(.bf16_peak_gflops), fma_peak_gflops: map(.fma_peak_gflops), read_gb_per_s: map(.read_gb_per_s)} |
        map_values({median: median, drift: ((max - min) / 2 / median), first: .[0], last: .[-1]}));

def summary($part; $quick):
    map(select(.case)) as $samples | map(.goal | values) as $goals |
    (reduce $samples[].case as $c ([]; if index($c) then . else . + [$c] end) |
        map(. as $c | [$samples[] | select(.case == $c)] | rows) | add // []) as $rows |
    {$part, $quick, machine: machine, $rows, series: (map(.point | values) | series), goals: judged($rows; $goals), $samples};

def left($n): . + " " * ($n - length);
def right($n): " " * ($n - length) + .;
def fixed($digits):
    pow(10; $digits) as $p | (. * $p | round) as $n | if $digits == 0 then "\($n)"
    else "\($n / $p | trunc)" as $whole | "\(($n | fabs) % $p)" | (if $n < 0 and $whole == "0" then "-" else "" end) + $whole + "." + "0" * ($digits - length) + . end;
# Three or four figures that count.
def short: fabs as $a | fixed(if $a >= 100 then 0 elif $a >= 10 then 1 elif $a >= 1 then 2 else 3 end);
def percent: if . == null then "" else "\(100 * . | round)%" end;

def verdict:
    (if .kind == "most" or .kind == "least" then "goal at \(.kind) \(.factor) \(.unit)" elif .kind == "ahead" then "goal \(.factor)x ahead" elif .factor > 1 then "goal at most \(.factor | percent) of limit"
    else "goal \(.factor | percent) of limit" end) +
    if .met == null then " (not measured)" elif .met then " (met)" else " (missed: \(.is | short))" end;

def table:
    . as $all | .machine as $m |
    "\(.part)\(if .quick then " (quick)" else "" end): \($m.isa), \($m.threads) threads; bf16 \($m.bf16_peak_gflops.median | short), fma \($m.fma_peak_gflops.median | short) GFLOP/s (drift \([$m.bf16_peak_gflops.drift, $m.fma_peak_gflops.drift] | max | percent)), read \($m.read_gb_per_s.median | short) GB/s (drift \($m.read_gb_per_s.drift | percent)), \($m.probes) probes",
    (if .rows == [] then empty else ("case" | left(34)) + ("who" | left(22)) + ("median" | right(12)) + ("spread" | right(10)) + ("n" | right(5)) +
        ("cores" | right(7)) + ("mint is" | right(9)) + "  of limit" end),
    (reduce .rows[] as $r ({last: null, out: []};
        ($r.case == .last) as $same |
        .out += [(if $same then "" else $r.case end | left(34)) + ($r.who | left(22)) + ("\($r.median | short) \($r.unit)" | right(12)) +
            (if $r.spread then "±\($r.spread | percent)" else "" end | right(10)) + ("\($r.n)" | right(5)) + ($r.cores | fixed(2) | right(7)) +
            (if $r.mint_is then "\($r.mint_is | short)x" else "" end | right(9)) +
            (if $r.of_limit then "  \($r.of_limit | percent) \($r.bound)" else "" end)] |
        .last = $r.case) | .out[] | sub(" +$"; "")),
    (.goals[] | "  \(.case): \(verdict)"),
    ([.rows[] | select(.unit == "tok/s" and .cores < 0.75 * $m.threads)] | length | select(. > 0) |
        "  disturbed: in \(.) rows of tok/s the program had less than three quarters of its cores; only a quiet run counts"),
    (.series[] | ([.points[0], .points[-1]] | map(.x | tostring) | join(" to ")) as $span |
        "\(.series), \($span): seconds grow by the power \(.seconds // 0 | fixed(2)), the work by \(.must // 0 | fixed(2)), memory by \(.memory // 0 | fixed(2))" +
            (if .seconds != null and .seconds > .must + 0.15 then "  FASTER THAN THE WORK" else "" end),
        (.points[] | ("\(.x)" | right(12)) + ("\(.cpu - .base | short) s" | right(12)) + ("\(.rss / 1e9 | short) GB" | right(12)))),
    "";
