// Causal attention of the demo model's trainer, and its gradient. Dialogues lie one behind another without padding.
// One thread computes one KV head of one dialogue. Products are of what lanes.hpp says, sums in float.
#include <algorithm>
#include <cmath>

#include "lanes.hpp"

using namespace rondo::demo;

extern "C" {

// What one layer's attention is asked for, as native.py fills it in. Rows are those of all dialogues together.
struct Attention {
    const Stored* qkv;    // [rows][(heads + 2 kv_heads) * 32]
    Stored* out;          // [rows][heads * 32]
    float* log_sums;      // [heads][rows]
    const float* cosine;  // [positions][16]
    const float* sine;
    const int64_t* starts;  // [dialogues + 1]
    int64_t dialogues, rows, heads, kv_heads, threads;
    // Masses of past rounds, of the rows that have an evidence mask; null where nobody asks.
    float* masses;             // [heads][rows][2]: on evidence, on all else before past_ends[row]
    const int64_t* past_ends;  // [rows], keys of the dialogue before the row's own round
    const int64_t* mask_at;    // [rows], where the row's mask begins, or -1
    const float* evidence;     // masks: 1 for keys in evidence rounds
    // Backward only.
    const Stored* grad_out;
    const float* grad_masses;
    Stored* grad_qkv;
};
}

namespace {

constexpr int row_block = 32;   // rows of queries worked on together
constexpr int key_chunk = 256;  // keys whose P and dS stay in the first cache
constexpr int chunk_stride = key_chunk + 16;
constexpr float scale = 0.17677669529f;  // 1 / sqrt(dim)

// One KV head of one dialogue: what both directions need to know.
struct Part {
    Part(const Attention& attention, int64_t dialogue, int64_t kv_head)
        : a(attention),
          group(kv_head),
          first(a.starts[dialogue]),
          count(static_cast<int>(a.starts[dialogue + 1] - first)),
          padded((count + 31) / 32 * 32),
          stride((a.heads + 2 * a.kv_heads) * dim),
          rows(zeros(padded * dim)),
          columns(zeros<Term>(padded * folded)) {}

    void load_keys() { load_rows(a.qkv + key_at(), stride, count, a.cosine, a.sine, 1, rows.get()); }
    void load_values() { load_rows(a.qkv + value_at(), stride, count, nullptr, nullptr, 1, rows.get()); }
    void load_queries(int64_t head) {
        load_rows(a.qkv + query_at(head), stride, count, a.cosine, a.sine, scale, rows.get());
    }
    void transpose(Term* to) {
        fold_columns(rows.get(), padded, columns.get());
        transpose_blocks(columns.get(), padded, to);
    }
    size_t query_at(int64_t head) const { return first * stride + head * dim; }
    size_t key_at() const { return first * stride + (a.heads + group) * dim; }
    size_t value_at() const { return key_at() + a.kv_heads * dim; }
    size_t out_at(int64_t head) const { return first * a.heads * dim + head * dim; }
    bool asks_masses(int row) const { return row < count && a.masses && a.mask_at[first + row] >= 0; }
    size_t mass_at(int64_t head, int row) const { return (head * a.rows + first + row) * 2; }

    const Attention& a;
    int64_t group, first;
    int count, padded;
    size_t stride;
    std::unique_ptr<float[], Free> rows;    // [padded][32], the last thing loaded; zeros behind `count`
    std::unique_ptr<Term[], Free> columns;  // [padded][folded]
};

struct Forward : Part {
    Forward(const Attention& attention, int64_t dialogue, int64_t kv_head)
        : Part(attention, dialogue, kv_head),
          p_stride(padded + 16),
          p(zeros(row_block * p_stride)),
          o(zeros(row_block * dim)),
          keys_across(zeros<Term>(padded * folded)),
          values(zeros<Term>(padded * folded)) {}

    void run() {
        load_keys();
        transpose(keys_across.get());
        load_values();
        fold_all_rows(rows.get(), padded, values.get());
        const int64_t each = a.heads / a.kv_heads;
        for (int64_t head = group * each; head < (group + 1) * each; ++head) {
            load_queries(head);
            fold_columns(rows.get(), padded, columns.get());
            for (int row = 0; row < padded; row += row_block) block(head, row);
        }
    }

    void block(int64_t head, int row) {
        const int keys = row + row_block;
        for (int key = 0; key < keys; key += 32)
            for (int r = 0; r < row_block; r += 8)
                multiply<false>(columns.get() + (row + r) * folded, folded, 1, keys_across.get() + key * folded, folded,
                                p.get() + r * p_stride + key, p_stride);
        for (int r = 0; r < row_block; ++r) softmax(head, row + r, keys, p.get() + r * p_stride);
        for (int r = 0; r < row_block; r += 8)
            multiply<false>(reinterpret_cast<const Term*>(p.get()) + r * p_stride, p_stride, 1, values.get(),
                            keys / fold, o.get() + r * dim, dim);
        store_rows(o.get(), std::min(row_block, count - row), nullptr, nullptr, 1,
                   a.out + out_at(head) + row * a.heads * dim, a.heads * dim);
    }

    // In place: a row of floats becomes one of what is stored, which may be half as long.
    void softmax(int64_t head, int row, int keys, float* line) {
        for (int key = row + 1; key < keys; ++key) line[key] = -1e30f;
        Lanes most = load(line);
        for (int key = 16; key < keys; key += 16) most = max(most, load(line + key));
        const float top = most_of(most);
        Lanes sum = all(0);
        for (int key = 0; key < keys; key += 16) {
            const Lanes e = exp16(load(line + key) - all(top));
            store(line + key, e);
            sum = sum + e;
        }
        const float total = sum_of(sum);
        if (row < count) a.log_sums[head * a.rows + first + row] = top + std::log(total);
        if (asks_masses(row)) {
            const float* mask = a.evidence + a.mask_at[first + row];
            float on = 0, past = 0;
            for (int64_t key = 0; key < a.past_ends[first + row]; ++key) {
                on += line[key] * mask[key];
                past += line[key];
            }
            a.masses[mass_at(head, row)] = on / total;
            a.masses[mass_at(head, row) + 1] = (past - on) / total;
        }
        for (int key = 0; key < keys; key += 16)
            store16(reinterpret_cast<Stored*>(line) + key, load(line + key) * all(1 / total));
    }

    size_t p_stride;
    std::unique_ptr<float[], Free> p, o;
    std::unique_ptr<Term[], Free> keys_across, values;
};

struct Backward : Part {
    Backward(const Attention& attention, int64_t dialogue, int64_t kv_head) : Part(attention, dialogue, kv_head) {
        for (auto* buffer : {&out, &grad_out, &grad_q, &grad_k, &grad_v}) *buffer = zeros(padded * dim);
        for (auto* buffer : {&p, &grad_s}) *buffer = zeros(row_block * chunk_stride);
        for (auto* buffer : {&keys_across, &values_across, &key_rows, &query_rows, &grad_out_columns, &grad_out_rows})
            *buffer = zeros<Term>(padded * folded);
        for (auto* buffer : {&p_rows, &grad_s_rows}) *buffer = zeros<Term>(row_block / fold * key_chunk);
    }

    void run() {
        load_values();
        transpose(values_across.get());
        load_keys();
        transpose(keys_across.get());
        fold_all_rows(rows.get(), padded, key_rows.get());
        const int64_t each = a.heads / a.kv_heads;
        for (int64_t head = group * each; head < (group + 1) * each; ++head) {
            load_head(head);
            for (int row = 0; row < padded; row += row_block) block(head, row);
            store_rows(grad_q.get(), count, a.cosine, a.sine, scale, a.grad_qkv + query_at(head), stride);
        }
        store_rows(grad_k.get(), count, a.cosine, a.sine, 1, a.grad_qkv + key_at(), stride);
        store_rows(grad_v.get(), count, nullptr, nullptr, 1, a.grad_qkv + value_at(), stride);
    }

    void load_head(int64_t head) {
        load_queries(head);
        fold_columns(rows.get(), padded, columns.get());
        fold_all_rows(rows.get(), padded, query_rows.get());
        load_rows(a.grad_out + out_at(head), a.heads * dim, count, nullptr, nullptr, 1, grad_out.get());
        fold_columns(grad_out.get(), padded, grad_out_columns.get());
        fold_all_rows(grad_out.get(), padded, grad_out_rows.get());
        load_rows(a.out + out_at(head), a.heads * dim, count, nullptr, nullptr, 1, out.get());
        std::memset(grad_q.get(), 0, padded * dim * sizeof(float));
    }

    void block(int64_t head, int row) {
        float dots[row_block];
        for (int r = 0; r < row_block; ++r) dots[r] = dot(head, row + r);
        for (int from = 0; from < row + row_block; from += key_chunk) {
            const int keys = std::min(key_chunk, row + row_block - from);
            for (int key = 0; key < keys; key += 32)
                for (int r = 0; r < row_block; r += 8) {
                    multiply<false>(columns.get() + (row + r) * folded, folded, 1,
                                    keys_across.get() + (from + key) * folded, folded, p.get() + r * chunk_stride + key,
                                    chunk_stride);
                    multiply<false>(grad_out_columns.get() + (row + r) * folded, folded, 1,
                                    values_across.get() + (from + key) * folded, folded,
                                    grad_s.get() + r * chunk_stride + key, chunk_stride);
                }
            for (int r = 0; r < row_block; ++r)
                softmax(head, row + r, from, keys, dots[r], p.get() + r * chunk_stride,
                        grad_s.get() + r * chunk_stride);
            fold_chunk(keys);
            accumulate(row, from, keys);
        }
    }

    // Sum over the row's keys of P times its gradient: that of the output, and that of the masses.
    float dot(int64_t head, int row) const {
        const float *x = grad_out.get() + row * dim, *y = out.get() + row * dim;
        float sum = sum_of(load(x) * load(y) + load(x + 16) * load(y + 16));
        const size_t i = mass_at(head, row);
        if (asks_masses(row)) sum += a.grad_masses[i] * a.masses[i] + a.grad_masses[i + 1] * a.masses[i + 1];
        return sum;
    }

    // Scores of a chunk become P, gradients of P those of scores.
    void softmax(int64_t head, int row, int from, int keys, float dot, float* line, float* grad) const {
        if (row >= count) {
            std::memset(line, 0, keys * sizeof(float));
            std::memset(grad, 0, keys * sizeof(float));
            return;
        }
        for (int key = std::max(0, row + 1 - from); key < keys; ++key) line[key] = -1e30f;
        if (asks_masses(row)) {
            const float* mask = a.evidence + a.mask_at[first + row];
            const float on = a.grad_masses[mass_at(head, row)], off = a.grad_masses[mass_at(head, row) + 1];
            for (int64_t key = from; key < std::min<int64_t>(from + keys, a.past_ends[first + row]); ++key)
                grad[key - from] += off + (on - off) * mask[key];
        }
        const Lanes log_sum = all(a.log_sums[head * a.rows + first + row]);
        for (int key = 0; key < keys; key += 16) {
            const Lanes e = exp16(load(line + key) - log_sum);
            store(line + key, e);
            store(grad + key, e * (load(grad + key) - all(dot)));
        }
    }

    // P and the gradient of scores as Terms over rows; the latter also, in place, as it is stored.
    void fold_chunk(int keys) {
        for (int r = 0; r < row_block; r += fold) {
            float *line = p.get() + r * chunk_stride, *grad = grad_s.get() + r * chunk_stride;
            for (int key = 0; key < keys; key += 16) {
                fold_rows(line + key, chunk_stride, p_rows.get() + r / fold * key_chunk + key);
                fold_rows(grad + key, chunk_stride, grad_s_rows.get() + r / fold * key_chunk + key);
                for (int i = 0; i < fold; ++i)
                    store16(reinterpret_cast<Stored*>(grad + i * chunk_stride) + key,
                            load(grad + i * chunk_stride + key));
            }
        }
    }

    void accumulate(int row, int from, int keys) {
        for (int r = 0; r < row_block; r += 8)
            multiply<true>(reinterpret_cast<const Term*>(grad_s.get()) + r * chunk_stride, chunk_stride, 1,
                           key_rows.get() + from * folded, keys / fold, grad_q.get() + (row + r) * dim, dim);
        for (int key = 0; key < keys; key += 8) {
            multiply<true>(grad_s_rows.get() + key, 1, key_chunk, query_rows.get() + row * folded, row_block / fold,
                           grad_k.get() + (from + key) * dim, dim);
            multiply<true>(p_rows.get() + key, 1, key_chunk, grad_out_rows.get() + row * folded, row_block / fold,
                           grad_v.get() + (from + key) * dim, dim);
        }
    }

    std::unique_ptr<float[], Free> out, grad_out, grad_q, grad_k, grad_v, p, grad_s;
    std::unique_ptr<Term[], Free> keys_across, values_across, key_rows, query_rows, grad_out_columns, grad_out_rows,
        p_rows, grad_s_rows;
};

template <class Direction>
void for_each_part(const Attention& a) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(static_cast <int>(a.threads))
    for (int64_t i = 0; i < a.dialogues * a.kv_heads; ++i) Direction(a, i / a.kv_heads, i % a.kv_heads).run();
}

}  // namespace

extern "C" {

void attention_forward(const Attention* a) {
    for_each_part<Forward>(*a);
}

void attention_backward(const Attention* a) {
    for_each_part<Backward>(*a);
}

}  // extern "C"
