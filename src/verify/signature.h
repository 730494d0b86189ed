/* signature.h - the legal dtype signatures of an op, enumerated from the rules of op.h.
 *
 * A signature is one choice for every slot whose dtype is a choice; for an optional one of those, absence is a choice
 * too. Slots with a fixed dtype are not part of it. A new dtype or rule shows up here by itself. */
#ifndef RT_VERIFY_SIGNATURE_H
#define RT_VERIFY_SIGNATURE_H

#include "op/op.h"

enum { RT_SIGNATURES_MAX = 512, RT_SIGNATURE_TEXT = 64 };

typedef struct rt_signature {
    rt_dtype dtype[RT_MAX_SLOTS]; /* of every slot, fixed ones included */
    uint32_t absent;              /* bit i: the optional slot i, whose dtype would be a choice, is not there */
} rt_signature;

/* Fills out (RT_SIGNATURES_MAX) and returns how many there are. */
uint32_t rt_signature_list(rt_op_kind kind, rt_signature *out);
/* Is the dtype of the slot a choice of its own? (Of slots that must agree, the first one is.) */
bool rt_signature_varies(rt_op_kind kind, uint32_t slot);
/* "f32.q4_k.-": the slots that vary, "-" where absent. Returns buf. */
char *rt_signature_text(char buf[RT_SIGNATURE_TEXT], rt_op_kind kind, const rt_signature *s);

#endif
