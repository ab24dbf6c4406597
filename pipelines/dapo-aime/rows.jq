# SPDX-License-Identifier: Apache-2.0
# rows.jq: rows of DAPO-Math-17k or of AIME as {id, question, answer}, each once: jq -ncf rows.jq ROWS.jsonl
#   {"prompt": [{"content"}], "reward_model": {"ground_truth"}, "extra_info": {"index"}}   as published, as JSON Lines
#   {"id", "question", "answer"}                                                          the same, short
#   {"ID", "Problem", "Answer"}                                                           AIME

# The published prompts carry directives of their own before and behind the problem.
def bare:
    gsub("^\\s*Solve the following math problem[^\\n]*\\n+"; "") |
    gsub("\\n+Remember to put your answer[^\\n]*\\s*$"; "");

def row:
    if has("Problem") then {id: .ID, question: .Problem, answer: (.Answer | tostring)}
    elif has("reward_model") then
        {id: .extra_info.index, question: (.prompt[-1].content | bare), answer: .reward_model.ground_truth}
    else {id, question, answer: (.answer | tostring)} end;

foreach (inputs | row) as $row ({};
    if .seen[$row.id | tostring] then .out = null else .seen[$row.id | tostring] = true | .out = $row end;
    .out // empty)
