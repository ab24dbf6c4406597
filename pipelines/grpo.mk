# SPDX-License-Identifier: Apache-2.0
# grpo.mk: the GRPO loop as a makefile: the files of a run are targets, and make knows what is left to do.
#
#   make -f grpo.mk MODEL=Qwen3-0.6B PROMPTS=problems.jsonl STEPS=20
#   make -f grpo.mk -n ...            prints the commands
#
# Options of the stages: SAMPLE, SCORE, ADVANTAGE, TRAIN, and ADAPTER for the fresh adapter of the first step. A step
# without datums (all groups flat) gets a link to the checkpoint before it.

RUN ?= run
MODEL ?= $(error MODEL=FOLDER is missing)
PROMPTS ?= $(error PROMPTS=FILE is missing)
STEPS ?= 10
SAMPLE ?= --groups-per-batch 8 --group-size 8 --max-tokens 16
SCORE ?= exact
ADVANTAGE ?=
TRAIN ?= --lr 2e-5
ADAPTER ?= --rank 16

export OMP_WAIT_POLICY ?= passive
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.SECONDARY:
.PHONY: all

steps := $(shell seq 1 $(STEPS))
all: $(RUN)/ckpt/$(STEPS)

# $(call before,N): the checkpoint that step N starts from, nothing at 1.
before = $(filter-out $(RUN)/ckpt/0,$(RUN)/ckpt/$(shell echo $$(($(1) - 1))))

define step
$(RUN)/step-$(1)/rollouts.jsonl.zst: | $(PROMPTS) $(call before,$(1))
	@mkdir -p $$(@D) $(RUN)/ckpt
	mint-sample --model $(MODEL) $(addprefix --adapter ,$(call before,$(1))) $(SAMPLE) --step $(shell echo $$(($(1) - 1))) \
		--seed $(1) $(PROMPTS) -f -o $$@

$(RUN)/ckpt/$(1): $(RUN)/step-$(1)/datums.jsonl.zst | $(call before,$(1))
	if [ "$$$$(zstd -dcq <$$< | head -c 1 | wc -c)" -gt 0 ]; then \
		mint-train --model $(MODEL) $(if $(call before,$(1)),--from $(call before,$(1)),$(ADAPTER)) $(TRAIN) --to $$@ $$<; \
	else $(if $(call before,$(1)),ln -s $(notdir $(call before,$(1))) $$@,echo 'step $(1): no datums, every group was flat' >&2; exit 1); fi
endef
$(foreach n,$(steps),$(eval $(call step,$(n))))

$(RUN)/step-%/scored.jsonl.zst: $(RUN)/step-%/rollouts.jsonl.zst
	mint-score $(SCORE) $< -f -o $@

$(RUN)/step-%/datums.jsonl.zst: $(RUN)/step-%/scored.jsonl.zst
	mint-advantage $(ADVANTAGE) $< -f -o $@
