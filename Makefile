# Builds libmint.a and the tools. make help lists the targets.
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:
MAKEFLAGS += --no-builtin-rules
BUILD ?= build/release
CC = gcc
CPPFLAGS += -D_GNU_SOURCE -Ilib
WARN = -std=c11 -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wvla -Wundef -Wformat=2 -Wpointer-arith -Wdouble-promotion -fno-common
BASE_CFLAGS = $(WARN) -O2 -g -ffp-contract=off -fopenmp
LIBS = -lzstd -lpcre2-8 -lutf8proc -lm -fopenmp
SRC = $(sort $(wildcard lib/*.c lib/cpu/*.c))
OBJ = $(SRC:%.c=$(BUILD)/obj/%.o)
TOOLS = $(sort $(notdir $(basename $(wildcard tools/*.c))))
all: $(TOOLS:%=$(BUILD)/bin/%)
$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(BASE_CFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/libmint.a: $(OBJ)
	@rm -f $@
	ar rcs $@ $^
$(BUILD)/bin/%: $(BUILD)/obj/tools/%.o $(BUILD)/libmint.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $^ $(LIBS) -o $@
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
