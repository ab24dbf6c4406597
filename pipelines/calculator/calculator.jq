#!/usr/bin/env -S jq -cf
# SPDX-License-Identifier: Apache-2.0
# calculator.jq: an environment. A response that ends in a call, <27*14>, is answered with what it comes to, in a
# form that no response can be mistaken for; what is no such call goes on without an answer, as an error of its own.

def result:
    capture("^(?<a>[0-9]{1,6})(?<op>[-+*])(?<b>[0-9]{1,6})$") |
    (.a | tonumber) as $a | (.b | tonumber) as $b |
    if .op == "+" then $a + $b elif .op == "-" then $a - $b else $a * $b end | tostring;

.sequences |= map(
    if (.text // "") | endswith(">") then
        .observation = (((.text | rindex("<")) as $from | .text[($from // 0) + 1:-1] | result) // "error") + ";"
    else . end)
