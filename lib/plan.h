/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h: what a run will take, before it: bytes of weights, FLOPs, and an estimate of the time.
 * The time is the work over the speed at which this device multiplies matrices of the model's
 * shapes (in training forward and backward, with LoRA), measured for some tenths of a second on
 * made-up numbers; so no weights are needed. Other work on the machine, then or now, makes it
 * wrong.
 *
 * FLOPs: 2 for each weight and row; training goes through the layers forward, again where nothing
 * is kept, and backward to the inputs, as the base is frozen: 4 or 6; 6 to 8 for each LoRA weight;
 * attention 4 x layers x width of all heads for each query and key, 2.5 times that backward.
 */
#ifndef MINT_PLAN_H
#define MINT_PLAN_H

#include "model.h"
#include "trainer.h"

struct mint_plan_speed {
    double product; /* FLOP/s of products with many rows, as prompts and training have them */
    double clear;   /* bytes/s at which a CPU's fresh memory is cleared; 0: no matter */
    double decode;  /* seconds of one weight for all sequences that run together */
    double draw;    /* seconds of drawing one token from its logits */
    double read;    /* bytes/s at which one row reads weights */
};
/* For sampling; slots: sequences that run together. */
int mint_plan_measure(struct mint_plan_speed *s, struct mint_dev *dev,
                      const struct mint_model_config *c, int64_t slots, struct mint_err *err);
/* For training LoRA of this rank: product and clear alone. */
int mint_plan_measure_train(struct mint_plan_speed *s, struct mint_dev *dev,
                            const struct mint_model_config *c, int64_t rank, struct mint_err *err);

/* Of the weights in the memory of a device that keeps act_bytes of each. */
double mint_plan_weight_bytes(const struct mint_model_config *c, size_t act_bytes);

struct mint_plan_sampling {
    double prompts, prompt_tokens; /* that go through the model */
    double sequences, tokens;      /* drawn, in all */
    double slots;                  /* sequences that run together */
    size_t act_bytes;
};
struct mint_plan {
    double flops, seconds; /* seconds 0 without a speed */
};
/* s NULL: flops alone. */
void mint_plan_sample(const struct mint_model_config *c, const struct mint_plan_sampling *in,
                      const struct mint_plan_speed *s, struct mint_plan *out);
/* One pass of training over this work, with a forward pass more for each of others (a reference, an
 * old policy), in so many bytes of activations. */
void mint_plan_train(const struct mint_model_config *c, const struct mint_adapter_config *a,
                     const struct mint_train_work *w, enum mint_recompute again, int others,
                     double bytes, const struct mint_plan_speed *s, struct mint_plan *out);

/* "12 s", "3.4 min", "2.5 h", "1.2 days" into text. */
void mint_plan_duration(double seconds, char text[32]);
/* Says the estimate as a note; without a speed why there is none, if why has a message. */
void mint_plan_say(const struct mint_plan *p, const struct mint_plan_speed *s,
                   const struct mint_err *why);

#endif
