# SPDX-License-Identifier: Apache-2.0
# rows.jq: preferences as {id, messages or prompt, chosen, rejected}, the answers as text: jq -ncf rows.jq ROWS.jsonl
#   {"prompt": "...", "chosen": "...", "rejected": "..."}                    as it is
#   {"prompt": [...], "chosen": [...], "rejected": [...]}                    conversations, answers alone (TRL)
#   {"messages": [...], "chosen": [...], "rejected": [...]}                  the same (MinT's chat-dpo)
#   {"chosen": [..., answer], "rejected": [..., answer]}                     with the prompt in them (UltraFeedback)
#   {"chosen": "\n\nHuman: ...\n\nAssistant: ...", "rejected": ...}          as text (hh-rlhf)
#   {"conversations": [...], "chosen": {...}, "rejected": {...}}             with from and value (ShareGPT)
#   {"prompt_conversation", "completion_A", "completion_B", "label": "A"}    comparisons, also under "comparison"

def message:
    if has("from") then {role: ({human: "user", gpt: "assistant"}[.from] // .from), content: .value}
    else {role, content} end;

def conversation:
    if type == "object" then [message] elif type == "array" then map(message) else . end;

# "\n\nHuman: a\n\nAssistant: b" as messages; other text stays text.
def dialogue:
    if type == "string" and test("^\\s*Human: ") then
        [splits("\n\n(?=(?:Human|Assistant): ?)") | select(test("\\S"))
            | capture("^\\s*(?<who>Human|Assistant): ?(?<content>[\\s\\S]*)$")
            | {role: {Human: "user", Assistant: "assistant"}[.who], content}]
    else . end;

def unfold:
    if has("comparison") then (.comparison | if type == "object" then . else {} end) + del(.comparison) else . end
    | if has("completion_A") then
        (if .label == "B" then ["B", "A"] else ["A", "B"] end) as $order
        | . + {prompt: .prompt_conversation, chosen: .["completion_" + $order[0]], rejected: .["completion_" + $order[1]]}
      else . end;

def fault($n; $what): error("row \($n): \($what)");

def answer($n; $name):
    if type == "string" then .
    elif type == "array" and length > 0 and (.[-1] | .role == "assistant" and (.content | type == "string")) then .[-1].content
    else fault($n; "\($name) is no answer: a text, or a conversation that ends in a message of the assistant") end;

def row($n):
    if type != "object" then fault($n; "no object") else unfold end
    | [.chosen, .rejected | conversation | dialogue] as [$chosen, $rejected]
    | ((.id // .pair_id // .prompt_id // "pair-\($n)") | tostring) as $id
    | (if ($chosen | type) == "array" and ($chosen | length) > 1 then
           if ($rejected | type) == "array" and $chosen[:-1] == $rejected[:-1] then $chosen[:-1]
           else fault($n; "chosen and rejected do not begin with the same prompt") end
       else (if (.prompt | type) == "string" then .prompt else .conversations // .messages // .prompt | conversation end) end) as $prompt
    | {id: $id}
      + (if ($prompt | type) == "array" and ($prompt | length) > 0 then {messages: $prompt}
         elif ($prompt | type) == "string" then {prompt: $prompt}
         else fault($n; "no prompt: a text, or a conversation") end)
      + {chosen: ($chosen | answer($n; "chosen")), rejected: ($rejected | answer($n; "rejected"))};

foreach inputs as $row (0; . + 1; . as $n | $row | row($n))
