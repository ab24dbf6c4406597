// SPDX-License-Identifier: Apache-2.0
/* types_nccl.cpp: kernels/nccl_calls.h against NCCL's own header. It compiles, or it does not. */
#include <cuda_runtime.h>
#include <nccl.h>
#include <type_traits>

#include "nccl_calls.h"

/* Passed alike: pointers of any kind, or values of one size and class. */
template <class A, class B>
constexpr bool alike =
    sizeof(A) == sizeof(B) && std::is_pointer<A>::value
                                  == std::is_pointer<B>::value &&std::is_class<A>::value
                                  == std::is_class<B>::value;

template <class F, class G> struct same_call : std::false_type {
};
template <class A, class... As, class B, class... Bs>
struct same_call<A (*)(As...), B (*)(Bs...)>
    : std::bool_constant<(sizeof...(As) == sizeof...(Bs) && alike<A, B> &&
                          (alike<As, Bs> && ...))> {
};

#define F(name, parameters) \
    static_assert(same_call<decltype(mint_nccl::name), decltype(&::name)>::value, #name);
NCCL_CALLS(F)
F(ncclGetErrorString, )
#undef F

static_assert(sizeof(mint_nccl_id) == sizeof(ncclUniqueId), "ids");
static_assert((int)MINT_NCCL_SUCCESS == (int)ncclSuccess &&
                  (int)MINT_NCCL_REMOTE_ERROR == (int)ncclRemoteError &&
                  (int)MINT_NCCL_IN_PROGRESS == (int)ncclInProgress,
              "statuses");
static_assert((int)MINT_NCCL_BYTES == (int)ncclInt8, "types");
static_assert(NCCL_MAJOR == 2, MINT_NCCL_SONAME);
