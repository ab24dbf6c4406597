/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity.h: what makes two models, policies or parents the same, as fingerprints ("sha256:...").
 * Tensors alone are not enough: the same bytes under another rope_theta or another alpha are
 * another function. Thread-safe.
 */
#ifndef MINT_IDENTITY_H
#define MINT_IDENTITY_H

#include "checkpoint.h"
#include "model_config.h"

/* A base model: its tensors' fingerprint (mint_st_fingerprint) and every entry of the config that
 * changes a number. Names of folders, end tokens and the length of the context do not. */
void mint_identity_base(const char *tensors, const struct mint_model_config *c, char out[72]);
/* A policy on a base: the adapter's tensors, rank, alpha. */
void mint_identity_adapter(const struct mint_checkpoint *c, char out[72]);
/* A parent to train on from: the policy, Adam's moments (or that there are none) and the step. */
int mint_identity_parent(const struct mint_checkpoint *c, char out[72], struct mint_err *err);

#endif
