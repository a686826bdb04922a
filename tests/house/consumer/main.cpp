#include <cstdio>
#include <rondo/config/result.hpp>
#include <rondo/kernels/backend.hpp>
#include <rondo/model/spec.hpp>

int main() {
    const auto spec = rondo::spec_from_hf("{}", "", "config.json");
    const auto device = rondo::open_device({});
    std::puts(device ? device->get()->name().c_str() : device.error().message.c_str());
    return !spec.is_ok() && device.is_ok() ? 0 : 1;
}
