#include "kernels/cpu/gemm_dnnl.hpp"

#include <omp.h>

#include <dnnl.hpp>
#include <map>
#include <utility>

#include "kernels/cpu/dense_panels.hpp"

namespace rondo::cpu {

namespace {

constexpr size_t products_max = 64;

/// oneDNN takes its thread count from OpenMP's per-thread setting; the host's own is put back.
class OneThread {
public:
    OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
    ~OneThread() { omp_set_num_threads(before_); }

private:
    int before_;
};

}  // namespace

struct DnnlGemm::Library {
    struct Product {
        dnnl::memory::desc x, weights, out, scratchpad;
        dnnl::matmul primitive;
    };

    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
    std::map<std::pair<int64_t, int64_t>, Product> products;  // by (rows, K padded)
    Scratch scratchpad;

    Product& product(int64_t rows, int64_t columns_padded) {
        using dnnl::memory;
        if (const auto found = products.find({rows, columns_padded}); found != products.end()) return found->second;
        if (products.size() >= products_max) products.clear();  // prompts of ever new lengths must not pile up
        Product made;
        made.x = {{rows, columns_padded}, memory::data_type::bf16, memory::format_tag::ab};
        made.weights = {{columns_padded, panel_outputs}, memory::data_type::bf16, memory::format_tag::BA16a64b2a};
        made.out = {{rows, panel_outputs}, memory::data_type::f32, memory::format_tag::ab};
        dnnl::primitive_attr attributes;
        attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
        const dnnl::matmul::primitive_desc description({made.x, made.weights, made.out}, attributes, engine);
        made.scratchpad = description.scratchpad_desc();
        made.primitive = dnnl::matmul(description);
        return products.emplace(std::pair{rows, columns_padded}, std::move(made)).first->second;
    }
};

DnnlGemm::DnnlGemm() = default;
DnnlGemm::~DnnlGemm() = default;

Status DnnlGemm::bf16_panel(const uint16_t* x, int64_t rows, const uint16_t* panel, int64_t columns_padded,
                            const ProductOut& out) {
    try {
        const OneThread one_thread;
        if (library_ == nullptr) library_ = std::make_unique<Library>();
        auto& product = library_->product(rows, columns_padded);
        auto* const sums = sums_.get<float>(static_cast<size_t>(rows * panel_outputs) * sizeof(float));
        const auto memory = [&](const dnnl::memory::desc& description, const void* data) {
            return dnnl::memory(description, library_->engine, const_cast<void*>(data));
        };
        product.primitive.execute(
            library_->stream,
            {{DNNL_ARG_SRC, memory(product.x, x)},
             {DNNL_ARG_WEIGHTS, memory(product.weights, panel)},
             {DNNL_ARG_DST, memory(product.out, sums)},
             {DNNL_ARG_SCRATCHPAD,
              memory(product.scratchpad, library_->scratchpad.get(product.scratchpad.get_size() + 64))}});
        library_->stream.wait();
        write_product(sums, panel_outputs, rows, out);
        return Status::ok();
    } catch (const dnnl::error& error) {
        return make_error(ErrorCode::device, std::string("oneDNN bf16 product: ") + error.what());
    }
}

}  // namespace rondo::cpu
