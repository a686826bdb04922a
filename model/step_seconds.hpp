#pragma once

namespace rondo {

/// What a transformer's steps have taken, by part. Where a device only takes orders, this is what giving them took.
struct StepSeconds {
    double product = 0.0;   ///< with weights, the output head's among them
    double attend = 0.0;    ///< to all keys or to chosen ones; by lines SparsePrefill counts
    double norm = 0.0;      ///< of rows and of heads
    double rope = 0.0;      ///< angles too
    double append = 0.0;    ///< of keys and values to the KV
    double activate = 0.0;  ///< of the FFN

    StepSeconds operator-(const StepSeconds& o) const {
        return {product - o.product, attend - o.attend, norm - o.norm,
                rope - o.rope,       append - o.append, activate - o.activate};
    }
};

}  // namespace rondo
