#!/usr/bin/env bash
# Runs what waits for a real GPU, in stages that each end in time. An item that fails, hangs or cannot run stops nothing.
# Each item appends its result to one JSON file, which is whole after every item.
#   gpu_check.sh STAGE [--programs DIR] [--out FILE.json] [--limit SECONDS]
#       STAGE: primitives, ops, models, memory, bench, or all of them, each within the limit (600 s)
#       DIR: where tests_gpu and rondo lie; here in a bundle, else build/bin. build/emulated/bin rehearses without a GPU.
#   gpu_check.sh pack [FILE.tar.xz] [--programs DIR]     packs all that a GPU machine lacks: pack_gpu_check.sh
# Ends with 0 when every item passed, else 1; a stage that cannot begin ends with 2.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
stages="primitives ops models memory bench"

refuse() {
    echo "gpu_check.sh: $1" >&2
    exit 2
}

# --- one item ---------------------------------------------------------------------------------------------------------

json_string() { # of standard input: its end, in printable ASCII
    tail -c 3000 | LC_ALL=C tr -cd '\11\12\40-\176' | sed 's/\\/\\\\/g; s/"/\\"/g; s/\t/\\t/g' |
        awk '{ printf "%s%s", (NR > 1 ? "\\n" : ""), $0 }'
}

append() { # OBJECT: one line of the array. The file is replaced whole, and by one run at a time.
    {
        flock 9
        {
            if [ -s "$out" ]; then sed '$d' "$out" | sed '$s/$/,/'; else echo '['; fi
            printf '%s\n]\n' "$1"
        } >"$out.$$" && mv -- "$out.$$" "$out"
    } 9<"$(dirname -- "$out")"
}

count() { # WORD LOG: what GoogleTest says of it in its last lines
    sed -n "s/^\[ *$1 *\] \([0-9][0-9]*\) tests\{0,1\}[.,].*/\1/p" "$2" | tail -1
}

item() { # NAME LIMIT_S COMMAND...
    local name=$1 limit=$2 left=$((stage_end - SECONDS)) log status=passed rc=0 began=$SECONDS result=null
    shift 2
    log=$(mktemp)
    ((limit > left)) && limit=$left
    if ((limit < 1)); then
        status="left out" rc=-1
        echo "the stage's limit of $stage_limit s was over" >"$log"
    elif ! command -v "$1" >/dev/null; then
        status=skipped rc=-1
        echo "$1 is not here" >"$log"
    else
        { # Asked to end a second early, so that what does not listen is killed within the limit.
            timeout --kill-after=1 $((limit > 1 ? limit - 1 : 1)) env LD_LIBRARY_PATH="$libraries" "$@" >"$log" 2>&1 </dev/null
            rc=$?
        } 2>/dev/null  # where the shell says of what signal it died
        ((rc != 0)) && status=failed
        ((rc == 124 || (rc == 137 && SECONDS - began >= limit - 1))) && status="timed out"
    fi
    local passed failed skipped
    passed=$(count PASSED "$log") failed=$(count FAILED "$log") skipped=$(count SKIPPED "$log")
    if [ "$status" = passed ] && grep -q '^\[=' "$log"; then
        if [ "${passed:-0}" = 0 ] && [ "${skipped:-0}" != 0 ]; then status=skipped
        elif [ "${passed:-0}" = 0 ]; then status=failed; echo "no test has this name" >>"$log"; fi
    fi
    [ "$status" = passed ] && grep -q '^{.*}$' "$log" && result=$(grep '^{.*}$' "$log" | tail -1)
    append "{\"stage\": \"$stage\", \"item\": \"$name\", \"status\": \"$status\", \"exit\": $rc, \"seconds\": $((SECONDS - began)), \"limit_s\": $limit, \"passed\": ${passed:-0}, \"failed\": ${failed:-0}, \"skipped\": ${skipped:-0}, \"result\": $result, \"gpu\": \"$gpu\", \"time\": \"$(date -u +%FT%TZ)\", \"output\": \"$(json_string <"$log")\"}"
    echo "$stage $name: $status ($((SECONDS - began)) s)"
    [ "$status" = passed ] || all_passed=0
    rm -f "$log"
}

tests() { # NAME LIMIT_S FILTER
    item "$1" "$2" "$programs/$tests_program" --gtest_filter="$3"
}

# --- stages -----------------------------------------------------------------------------------------------------------

primitives() {
    tests primitives 60 'Primitives.*'
}

ops() {
    tests device 60 'CudaDevice.*'
    local suite
    for suite in TakeRows Embed RmsNorm Rope SiluMul Softmax Kv Matmul Attend; do
        tests "$suite" 240 "EveryDevice/$suite.*/Cuda0"
    done
}

models() {
    tests golden 120 '*Golden.TheGpuMatchesToo/*'
    tests steps 240 'EngineOnGpu/*'
    tests rounds 120 'OnGpu/RoundMoving*'
    item generate 60 bash -c '
        for device in cpu cuda:0; do
            "$0" generate --model "$1" --device $device --prompt "$2" --max-tokens 16 --ignore-eos --json |
                grep -o "\"ids\":\[[^]]*\]"
        done | tee /dev/stderr | sort | uniq -c | grep -q "^ *2 "' "$programs/rondo" "$demo" \
        "<|user|>The code of the red box is 4817. What is the code of the red box?<|end|><|assistant|>"
}

# Small shapes: a tool makes a kernel a hundred times as slow.
memory() {
    local small='*TakeRows*/Cuda0:*Embed*/Cuda0:*RmsNorm*/Cuda0:*Rope*/Cuda0:*SiluMul*/Cuda0:*Softmax*/Cuda0:*Kv.*/Cuda0'
    small+=':*Attend.MatchesTheReferenceForEveryTypeOfQueryAndOutput/Cuda0:*Attend.TablesOfLaterSequences*/Cuda0'
    small+=':*Matmul.AddsTheBias*/Cuda0'
    local tool
    for tool in memcheck racecheck synccheck initcheck; do
        item "$tool" 180 compute-sanitizer --tool "$tool" --error-exitcode 9 "$programs/$tests_program" \
            --gtest_filter="$small"
    done
}

bench() {
    local qwen=(--model "$models/qwen2-0.5b" --weights random:1 --device cuda:0 --json)
    local small=(--model "$demo" --device cuda:0 --json)
    item "prefill, demo" 60 "$programs/rondo" bench prefill "${small[@]}" --tokens 512 --repeat 3
    item "decode, demo" 60 "$programs/rondo" bench decode "${small[@]}" --tokens 32 --repeat 3
    [ -d "$models/qwen2-0.5b" ] || return
    item "prefill, qwen2-0.5b" 120 "$programs/rondo" bench prefill "${qwen[@]}" --tokens 2048
    item "decode, qwen2-0.5b" 120 "$programs/rondo" bench decode "${qwen[@]}" --tokens 64
    item "decode at 8192, qwen2-0.5b" 120 "$programs/rondo" bench decode "${qwen[@]}" --tokens 64 --depth 8192
    item "decode of 16, qwen2-0.5b" 120 "$programs/rondo" bench decode "${qwen[@]}" --tokens 64 --batch 16
}

# --- the command line -------------------------------------------------------------------------------------------------

chosen=${1:-}
shift || true
if [ "$chosen" = pack ]; then
    [ -r "$here/pack_gpu_check.sh" ] || refuse "pack needs Rondo's sources, and $here is a bundle"
    exec "$BASH" "$here/pack_gpu_check.sh" "$@"
fi
[ "$chosen" = all ] && chosen=$stages
[ -n "$chosen" ] && for stage in $chosen; do
    [[ " $stages " == *" $stage "* ]] || refuse "stage \"$stage\" is none of $stages, all and pack"
done || { sed -n '4,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }

programs=$here out=gpu-check.json stage_limit=600
[ -d "$here/lib" ] || programs=$here/../build/bin  # this is no bundle
while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || refuse "$1 needs a value"
    case $1 in
        --programs) programs=$2 ;;
        --out) out=$2 ;;
        --limit) stage_limit=$2 ;;
        *) refuse "$1 is none of --programs, --out and --limit" ;;
    esac
    shift 2
done
[[ $stage_limit =~ ^[1-9][0-9]{0,5}$ ]] || refuse "--limit is \"$stage_limit\"; it must be a number of seconds from 1 to 999999"
tests_program=tests_gpu
[ ! -x "$programs/tests_gpu" ] && [ -x "$programs/tests_emulated" ] && tests_program=tests_emulated
for program in "$tests_program" rondo; do
    [ -f "$programs/$program" ] && [ -x "$programs/$program" ] || refuse "$programs/$program is missing"
done
[ ! -e "$out" ] || [ -f "$out" ] || refuse "$out is no file"
[ ! -s "$out" ] || [ "$(tail -1 "$out")" = ']' ] || refuse "$out is no file of this program: its last line must be ]"
{ : >"$out.$$" && rm -- "$out.$$"; } 2>/dev/null || refuse "$out cannot be written: its folder must be there and writable"

models=$here/models demo=$here/models/demo
[ -d "$demo" ] || demo=$here/../examples/demo_model
[ -d "$here/golden" ] && export RONDO_GOLDEN_MODELS=$here/golden
libraries=$here/lib
gpu="emulated"
if [ "$tests_program" = tests_gpu ]; then
    gpu=$(timeout 60 nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -1 | json_string)
    # The program looks for its cuBLASLt on the loader's path and here. Another version is of no use.
    cublas=$(LC_ALL=C grep -ao '/usr/local/cuda/lib64/libcublasLt\.so\.[0-9]*' "$programs/tests_gpu" | head -1)
    if [ -n "$cublas" ] && [ ! -e "$cublas" ]; then
        cublas=$(timeout 60 find / -name "${cublas##*/}" -not -path '/proc/*' 2>/dev/null | tail -1)
        [ -z "$cublas" ] || libraries+=:$(dirname "$cublas")
    fi
    PATH+=:/usr/local/cuda/bin:/opt/nvidia/cuda/bin  # where compute-sanitizer may lie
fi
libraries+=${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

all_passed=1
for stage in $chosen; do
    stage_end=$((SECONDS + stage_limit))
    $stage
done
exit $((1 - all_passed))
