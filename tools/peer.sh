#!/usr/bin/env bash
# llama.cpp as Debian packages it, in a root of its own, so that Rondo and a peer can be measured in one run.
#   peer.sh setup          debootstrap Debian sid into PEER_DIR and install llama.cpp-tools (root; minutes the first time)
#   peer.sh run CMD ...    run llama-bench, llama-server, llama-quantize … inside; /models there is MODELS_DIR
#                          with PEER_TIER=avx512 or avx2 by no more than that of the processor
#   peer.sh drop           unmount and delete
set -euo pipefail
peer_dir=${PEER_DIR:-/tmp/peer}
models_dir=${MODELS_DIR:-/tmp/models}
root=$peer_dir/sid

mount_once() { # SOURCE TARGET OPTIONS...
    mkdir -p "$2"
    mountpoint -q "$2" || mount "${@:3}" "$1" "$2"
}

# What a command printed is told only where it fails.
quietly() { # LOG COMMAND...
    "${@:2}" >"$1" 2>&1 && return
    { echo "peer.sh setup: '${*:2}' failed; it needs the network. Of $1:" && tail -5 "$1"; } >&2
    exit 1
}

install_here() {
    apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends "$@"
}

setup() {
    if [ "$(id -u)" -ne 0 ]; then
        echo "peer.sh setup: needs root, for chroot and mounts" >&2
        exit 1
    fi
    if [ ! -x "$root/usr/bin/llama-bench" ]; then
        mkdir -p "$peer_dir"
        command -v debootstrap >/dev/null || quietly "$peer_dir/apt.log" install_here debootstrap
        quietly "$peer_dir/debootstrap.log" debootstrap --variant=minbase sid "$root"
        quietly "$peer_dir/install.log" \
            chroot "$root" apt-get install --yes --quiet --no-install-recommends llama.cpp-tools
    fi
    # make_model.py writes the models that both run.
    mkdir -p "$peer_dir"
    /usr/bin/python3 -c "import numpy" 2>/dev/null || quietly "$peer_dir/numpy.log" install_here python3-numpy \
        libopenblas0-pthread  # numpy multiplies five times as fast with it
    mkdir -p "$models_dir"
    mount_once "$models_dir" "$root/models" --bind
    mount_once proc "$root/proc" -t proc
    mount_once /dev "$root/dev" --bind
    chroot "$root" dpkg-query -W llama.cpp-tools libggml0
}

drop() {
    for name in models proc dev; do
        if mountpoint -q "$root/$name"; then umount "$root/$name"; fi
    done
    rm -rf --one-file-system "$peer_dir"
}

# ggml takes the best of its libraries that can be opened. Those beyond the tier are empty files for this command alone.
run() {
    local beyond=() name
    case ${PEER_TIER:-} in
        avx512 | portable) beyond=(sapphirerapids) ;;
        avx2) beyond=(sapphirerapids zen4 cooperlake icelake cascadelake cannonlake skylakex) ;;
    esac
    [ ${#beyond[@]} -gt 0 ] || exec chroot "$root" "$@"
    for name in "${beyond[@]}"; do
        set -- "$root"/usr/lib/*/ggml/backends*/"libggml-cpu-$name.so" "$@"
    done
    exec unshare --mount bash -c '
        for ((i = 0; i < $1; i++)); do mount --bind /dev/null "${@:i+3:1}" || exit 1; done
        exec chroot "$2" "${@:$1+3}"' hidden "${#beyond[@]}" "$root" "$@"
}

case ${1:-} in
    setup) setup ;;
    run) run "${@:2}" ;;
    drop) drop ;;
    *)
        sed -n '2,6p' "$0"
        exit 2
        ;;
esac
