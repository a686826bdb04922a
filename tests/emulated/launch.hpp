#pragma once

#include <driver_types.h>

#include <functional>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

namespace rondo::emulated {

/// Puts a kernel on the launch's stream; `called` is how the template that launches it was instantiated, which names
/// the kernel's parameters.
cudaError_t enqueue_kernel(const cudaLaunchConfig_t& launch, std::string_view called, std::function<void()> kernel);
/// Puts host work on a stream, as a library does whose kernels are not emulated.
cudaError_t enqueue_work(cudaStream_t stream, std::function<void()> work);

/// cudaLaunchKernelEx: arguments are taken by value now, each thread of the grid gets copies.
template <class... Expected, class... Given>
cudaError_t launch(const cudaLaunchConfig_t* config, void (*kernel)(Expected...), Given&&... given) {
    auto arguments = std::make_shared<const std::tuple<Expected...>>(std::forward<Given>(given)...);
    return enqueue_kernel(*config, __PRETTY_FUNCTION__, [kernel, arguments] { std::apply(kernel, *arguments); });
}

}  // namespace rondo::emulated
