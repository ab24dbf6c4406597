/* SPDX-License-Identifier: Apache-2.0 */
#include "policy.h"

#include <stdlib.h>
#include <string.h>

#include "identity.h"

int mint_policy_open(struct mint_policy *p, const struct mint_policy_opts *o, struct mint_err *err)
{
    *p = (struct mint_policy){0};
    enum mint_precision precision = (enum mint_precision)o->precision;
    if (mint_backend_open(&p->dev, o->device, precision, o->threads, err) < 0 ||
        mint_model_open(&p->model, o->model, p->dev, o->packed, err) < 0)
        goto fail;
    p->print = mint_st_print_begin(p->model->st, o->packed);
    if (o->adapter) {
        if (mint_checkpoint_open(&p->checkpoint, o->adapter, err) < 0)
            goto fail;
        p->has_checkpoint = true;
        if (mint_adapter_load(&p->adapter, p->model, &p->checkpoint, err) < 0) {
            mint_wrap(err, "%s: ", o->adapter);
            goto fail;
        }
        mint_identity_adapter(&p->checkpoint, p->adapter_fingerprint);
    }
    return 0;
fail:
    mint_policy_close(p);
    return -1;
}

int mint_policy_outline(struct mint_policy *p, const struct mint_policy_opts *o,
                        struct mint_err *why, struct mint_err *err)
{
    enum mint_precision precision = (enum mint_precision)o->precision;
    *p = (struct mint_policy){0};
    *why = (struct mint_err){0};
    if (mint_backend_open(&p->dev, o->device, precision, o->threads, why) < 0)
        MINT_TRY(mint_backend_open(&p->dev, "cpu", precision, o->threads, err));
    if (mint_model_outline(&p->model, o->model, p->dev, err) == 0 &&
        (!o->adapter || mint_checkpoint_open(&p->checkpoint, o->adapter, err) == 0)) {
        p->has_checkpoint = o->adapter != NULL;
        return 0;
    }
    mint_policy_close(p);
    return -1;
}

int mint_policy_fingerprint(struct mint_policy *p, const char **text, struct mint_err *err)
{
    if (!p->known) {
        char tensors[72];
        mint_st_print_finish(p->print, p->dev->threads, tensors);
        mint_identity_base(tensors, &p->model->config, p->fingerprint);
        p->known = true;
    }
    const char *base = p->checkpoint.state.base;
    if (p->has_checkpoint && base[0] && strcmp(base, p->fingerprint) != 0)
        return mint_fail(err, MINT_EMODEL,
                         "the adapter was trained on another base model, in tensors or in "
                         "config.json (%s, this one is %s)",
                         base, p->fingerprint);
    *text = p->fingerprint;
    return 0;
}

void mint_policy_close(struct mint_policy *p)
{
    mint_st_print_free(p->print);
    mint_adapter_close(p->adapter);
    if (p->has_checkpoint)
        mint_checkpoint_close(&p->checkpoint);
    mint_model_close(p->model);
    mint_backend_close(p->dev);
    *p = (struct mint_policy){0};
}
