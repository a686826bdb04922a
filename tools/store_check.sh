#!/usr/bin/env bash
# Measures everything that docs/store.md says of the store, one step behind the other, on a machine with nothing else to
# do (some two and a half hours). What each step prints lies in OUT; a step that is done is not run again.
#   store_check.sh OUT [STEP ...]
# Steps: gates checksums reads beside restore many idle peer faults forgotten aborts soak.
# Models of random weights are made in MODELS_DIR (/tmp/models) where they are missing.
set -euo pipefail
[ $# -gt 0 ] || { sed -n '2,6p' "$0"; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
steps=${*:-gates checksums reads beside restore many idle peer faults forgotten aborts soak}
cd "$(dirname "$0")/.."
export MODELS_DIR=${MODELS_DIR:-/tmp/models}
mha=$MODELS_DIR/mha
qwen=$MODELS_DIR/qwen05
[ -e "$mha/config.json" ] || /usr/bin/python3 tools/make_model.py "$mha" --shape llama-mha --ctx 40960
[ -e "$qwen/config.json" ] || /usr/bin/python3 tools/make_model.py "$qwen" --shape qwen2-0.5b
key=$out/key
[ -e "$key" ] || (umask 077 && openssl rand -hex 32 >"$key")

run() { # NAME COMMAND...
    [ ! -e "$out/$1.done" ] || return 0
    local began=$SECONDS status=0
    timeout 3600 "${@:2}" >"$out/$1" 2>"$out/$1.err" || status=$?
    echo "$1: status $status, $((SECONDS - began)) s" | tee -a "$out/steps"
    [ $status -ne 0 ] || touch "$out/$1.done"
}

for step in $steps; do
    case $step in
    gates) for new in 16 24 32 64 96; do run "gates_$new" bench/gates.py --model "$mha" --pool-mib 560 --new $new --rounds 9; done ;;
    checksums) run checksums build/bin/bench_store ;;
    reads)
        run reads_mha bench/store_reads.py --model "$mha" --pool-mib 560
        run reads_qwen bench/store_reads.py --model "$qwen" --pool-mib 110 --rounds 7
        ;;
    beside)
        run beside_mha bench/beside.py --model "$mha" --pairs 15
        run beside_qwen bench/beside.py --model "$qwen" --pairs 7
        ;;
    restore)
        run restore_mha bench/restore.py --model "$mha"
        run restore_qwen bench/restore.py --model "$qwen"
        ;;
    many)
        run many bench/many.py
        run many_sealed bench/many.py --key-file "$key"
        ;;
    idle)
        run idle_mha bench/idle.py --model "$mha" --pool-mib 2200
        run idle_qwen bench/idle.py --model "$qwen" --pool-mib 420
        ;;
    peer)
        run peer_restore_mha bench/restore.py --model "$mha" --peer --no-recompute
        run peer_restore_qwen bench/restore.py --model "$qwen" --peer --no-recompute
        run peer_idle_mha bench/idle.py --model "$mha" --pool-mib 560 --conversations 8 --peer
        run peer_idle_qwen bench/idle.py --model "$qwen" --pool-mib 110 --conversations 8 --peer
        ;;
    faults) run faults env RONDO_STORE_FAULTS=1 build/bin/tests_memory \
        '--gtest_filter=*StoreKill*:*StoreNoSpace*:*StoreDamage*:*FullDisk*:*ManifestRescue*' ;;
    forgotten)
        run forgotten bench/forgotten.py
        run forgotten_sealed bench/forgotten.py --key-file "$key"
        ;;
    aborts) run aborts python3 tools/soak --minutes 0 --aborts 10000 ;;
    soak) run soak python3 tools/soak --minutes 4 --store always ;;
    *) echo "store_check.sh: $step is no step" >&2 && exit 2 ;;
    esac
done
