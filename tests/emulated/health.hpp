#pragma once

#include <driver_types.h>

#include <optional>
#include <string>

namespace rondo::emulated {

/// After a kernel's fault nothing runs any more and every call fails, as on a GPU, until a test takes the fault. The
/// fault is told on standard error, and by cudaGetErrorString.
void break_down(const std::string& fault);
bool is_broken();
/// The fault, if there was one; the GPU works again.
std::optional<std::string> take_fault();

/// What a call of the runtime returns, kept for cudaGetLastError; on a broken GPU a failure in any case.
cudaError_t answer(cudaError_t error);

}  // namespace rondo::emulated
