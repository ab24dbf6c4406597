# SPDX-License-Identifier: Apache-2.0
"""peer_gguf.py FOLDER FILE: a model folder of mint-init as GGUF in bf16, for measuring llama.cpp on the same weights.

Speed is all that it is good for: the rows of Llama's q and k are not reordered as GGUF wants them.
"""
import json
import sys
from pathlib import Path

import gguf
import numpy as np

folder, out = Path(sys.argv[1]), sys.argv[2]
config = json.loads((folder / "config.json").read_text())
arch = config["model_type"]
head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]

w = gguf.GGUFWriter(out, arch)
w.add_name("bench")
w.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
w.add_block_count(config["num_hidden_layers"])
w.add_context_length(config["max_position_embeddings"])
w.add_embedding_length(config["hidden_size"])
w.add_feed_forward_length(config["intermediate_size"])
w.add_head_count(config["num_attention_heads"])
w.add_head_count_kv(config["num_key_value_heads"])
w.add_key_length(head_dim)
w.add_value_length(head_dim)
w.add_rope_dimension_count(head_dim)
w.add_rope_freq_base(config["rope_theta"])
w.add_layer_norm_rms_eps(config["rms_norm_eps"])
w.add_vocab_size(config["vocab_size"])

vocab = json.loads((folder / "tokenizer.json").read_text())
names = {i: t for t, i in vocab["model"]["vocab"].items()}
special = {t["id"]: t["content"] for t in vocab["added_tokens"]}
ids = range(config["vocab_size"])
w.add_tokenizer_model("gpt2")
w.add_tokenizer_pre("gpt-2")
w.add_token_list([special.get(i) or names.get(i) or f"[PAD{i}]" for i in ids])
w.add_token_types([gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL if i in names else gguf.TokenType.UNUSED for i in ids])
w.add_token_merges(["[PAD1] [PAD2]"])  # the loader wants one
w.add_eos_token_id(258)

names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[arch.upper()], config["num_hidden_layers"])
tensors = []
for file in sorted(folder.glob("*.safetensors")):
    raw = np.memmap(file, dtype=np.uint8, mode="r")
    size = int.from_bytes(raw[:8].tobytes(), "little")
    for name, t in json.loads(raw[8 : 8 + size].tobytes()).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + at for at in t["data_offsets"])
        assert t["dtype"] == "BF16", f"{name} is {t['dtype']}"
        data, rows = raw[begin:end], t["shape"][0]
        name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if len(t["shape"]) == 2:
            w.add_tensor(name, data.reshape(rows, -1), raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:  # norms and biases: float32
            w.add_tensor(name, (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32))
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
