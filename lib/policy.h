/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.h: a device, a model and perhaps an adapter, opened together; what mint-sample and
 * mint-train begin with. The base model's fingerprint takes as long as the first tokens (it reads
 * every byte of the weights), so a thread computes it while the processor has nothing else to do.
 */
#ifndef MINT_POLICY_H
#define MINT_POLICY_H

#include "checkpoint.h"
#include "lora.h"
#include "model.h"

struct mint_policy {
    struct mint_dev *dev;
    struct mint_model *model;
    struct mint_adapter *adapter;      /* NULL: the base */
    struct mint_checkpoint checkpoint; /* of the adapter; zeroed without */
    bool has_checkpoint;
    char adapter_fingerprint[72]; /* identity.h; of the adapter as a policy */
    struct mint_st_print *print;  /* of the base, in the making */
    bool known;
    char fingerprint[72];
};

struct mint_policy_opts {
    const char *model, *adapter; /* folders; adapter NULL: none */
    const char *device;
    int precision; /* enum mint_precision */
    int threads;
    bool packed; /* for sampling */
};
int mint_policy_open(struct mint_policy *p, const struct mint_policy_opts *o, struct mint_err *err);
/* For a plan: from config.json, and the adapter's configuration, alone; nothing can be computed
 * with it. Where the device is not there, a CPU stands in, and why says so (else its code is
 * MINT_OK). */
int mint_policy_outline(struct mint_policy *p, const struct mint_policy_opts *o,
                        struct mint_err *why, struct mint_err *err);
void mint_policy_close(struct mint_policy *p); /* safe on a zeroed one */
/* The base's fingerprint, on all of the device's threads as far as it is not ready; an error if the
 * adapter was trained on another base. */
int mint_policy_fingerprint(struct mint_policy *p, const char **text, struct mint_err *err);

#endif
