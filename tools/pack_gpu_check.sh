#!/usr/bin/env bash
# Packs gpu_check.sh and all that a machine with a GPU lacks: programs, their libraries, models and golden files.
#   gpu_check.sh pack [FILE.tar.xz] [--programs DIR]
#       FILE: gpu-check.tar.xz in the current folder, unless another is named; written whole or not at all
#       DIR: where rondo and tests_gpu lie; without it they are built in build/bin. build/emulated/bin packs a rehearsal.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)
folder=gpu-check

refuse() {
    echo "gpu_check.sh pack: $1" >&2
    exit 2
}

shape_of_qwen2() { # weights come from a seed
    cat <<'JSON'
{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
 "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
 "max_position_embeddings": 32768, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "tie_word_embeddings": true,
 "hidden_act": "silu", "torch_dtype": "bfloat16"}
JSON
}

build_programs() {
    cmake --build "$root/build" --target rondo tests_gpu >"$work/log" 2>&1 && return
    tail -5 "$work/log" >&2
    refuse "rondo and tests_gpu cannot be built in $root/build; a CUDA toolkit with nvcc is needed"
}

# The driver and cuBLASLt are the GPU machine's own, glibc too; they are opened at run time or newer there.
copy_libraries() { # PROGRAM
    local listed library
    listed=$(ldd "$1" 2>/dev/null)  # of a script there is nothing to list
    library=$(sed -n 's/^[[:space:]]*\(.*\) => not found$/\1/p' <<<"$listed" | head -1)
    [ -z "$library" ] || refuse "$1 needs $library, which is not found"
    sed -nE '/\/(libc|libm|libdl|librt|libpthread)\.so[^/]*$/d; s/^.* => (\/.*) \(0x[0-9a-f]*\)$/\1/p' <<<"$listed" |
        while IFS= read -r library; do cp -L -- "$library" "$work/$folder/lib/" || exit; done
}

strip_all() { # FILES: what is no program or library stays as it is
    local file
    for file; do
        [ -f "$file" ] && [ "$(head -c 4 "$file" | tr -d '\0')" = $'\x7fELF' ] && strip --strip-unneeded "$file"
    done
}

# --- the command line -------------------------------------------------------------------------------------------------

file=gpu-check.tar.xz programs=
[ $# -gt 0 ] && [[ $1 != --* ]] && { file=$1; shift; }
while [ $# -gt 0 ]; do
    [ "$1" = --programs ] || refuse "$1 is not --programs"
    [ $# -ge 2 ] || refuse "$1 needs a value"
    programs=$2
    shift 2
done
for tool in tar xz ldd strip; do
    command -v "$tool" >/dev/null || refuse "$tool is not here; it must be installed"
done
[ ! -d "$file" ] || refuse "$file is a folder; it must be a file"
work='' partial=$file.$$
trap 'rm -rf -- "$work" "$partial"' EXIT
{ : >"$partial"; } 2>/dev/null || refuse "$file cannot be written: its folder must be there and writable"
work=$(mktemp -d) || refuse "no temporary folder can be made"

[ -n "$programs" ] || { build_programs; programs=$root/build/bin; }
tests_program=tests_gpu
[ ! -x "$programs/tests_gpu" ] && [ -x "$programs/tests_emulated" ] && tests_program=tests_emulated
for program in "$tests_program" rondo; do
    [ -f "$programs/$program" ] && [ -x "$programs/$program" ] || refuse "$programs/$program is missing"
done

# --- the bundle -------------------------------------------------------------------------------------------------------

mkdir -p "$work/$folder/lib" "$work/$folder/models/qwen2-0.5b" &&
    cp -- "$here/gpu_check.sh" "$programs/rondo" "$programs/$tests_program" "$work/$folder/" &&
    copy_libraries "$programs/rondo" && copy_libraries "$programs/$tests_program" &&
    cp -r "$root/examples/demo_model" "$work/$folder/models/demo" &&
    cp -r "$root/tests/fixtures/golden" "$work/$folder/golden" &&
    shape_of_qwen2 >"$work/$folder/models/qwen2-0.5b/config.json" || refuse "the bundle cannot be put together"
strip_all "$work/$folder/rondo" "$work/$folder/$tests_program" "$work/$folder"/lib/*
tar -C "$work" -cf - "$folder" | xz -T0 >"$partial" && mv -- "$partial" "$file" || refuse "$file cannot be written whole"
echo "$file: $(du -h -- "$file" | cut -f1)"
