# SPDX-License-Identifier: Apache-2.0
# accuracy.jq: how often, and by how much, chosen answers are likelier than rejected ones. $now and $before: of each record
# its answers as [reward, logprob], by the policy and by the reference. The reward of DPO is beta (logprob - logprob of the
# reference).

def pairs: [.[] | select(.[0] == 1) | .[1]] as $chosen | [.[] | select(.[0] == 0) | .[1]] as $rejected
    | $chosen[] - $rejected[];
def share(f): if length == 0 then 0 else (map(select(f)) | length) / length end;
def mean: if length == 0 then 0 else add / length end;
def digits: . * 10000 | round / 10000;

[$now[] | pairs] as $own
| [range($now | length) as $i | [range($now[$i] | length) as $k
    | [$now[$i][$k][0], $beta * ($now[$i][$k][1] - $before[$i][$k][1])]] | pairs] as $reward
| "pairs            \($own | length)",
  "accuracy         \($own | share(. > 0) | digits)",
  "margin           \($own | mean | digits)",
  "reward accuracy  \($reward | share(. > 0) | digits)",
  "reward margin    \($reward | mean | digits)"
