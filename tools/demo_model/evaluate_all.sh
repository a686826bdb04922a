#!/bin/bash
# evaluate_all.sh MODEL RESULTS: all that the card of the demo model says, in two lanes of a core each.
# MODEL is a checkpoint or a Hugging Face folder. A file of RESULTS that is there already is not made again: stop it and
# go on later. LANES=1 or 2 runs one lane; quick=1 what fits into 20 minutes; TRAINING names the log of train.py.
set -u -o pipefail
checkpoint=$1 out=$2
tools=$(cd "$(dirname "$0")" && pwd)
rondo=${RONDO:-$tools/../../build/bin/rondo} python=/usr/bin/python3 training=${TRAINING:-$tools/training.log} quick=${quick:-}
export OPENBLAS_NUM_THREADS=1
mkdir -p "$out" && model=$out/demo_model   # its folder names it in tables
[ -e "$model/config.json" ] || $python "$tools/files.py" "$checkpoint" "$model" || exit 1
cp "$training" "$out/training.log"

# once FILE COMMAND…: its output becomes FILE when it is whole; how long it took goes to times.
once() {
    local file=$out/$1 began=$SECONDS; shift
    [ -s "$file" ] && return
    if "$@" >"$file.part" 2>"$file.log"; then
        mv "$file.part" "$file"
    else
        echo "FAILED $file: $*" >&2
        tail -3 "$file.log" >&2
    fi
    echo "$(date +%T) $((SECONDS - began)) s $(basename "$file")" | tee -a "$out/times"
}
cells() { # FILE DIALOGUES ROUNDS HISTORY TASKS
    once "$1" $python "$tools/evaluate.py" "$model" --json --seed 20000000 --dialogues "$2" --rounds "$3" --history "$4" --tasks "$5"
}
attention() { # ROUNDS DIALOGUES
    once "attention_$1.json" "$rondo" inspect attention --model "$model" --rounds "$1" --count "$2" --threads 1 --kv f32 \
        --seeds report --seed 20500000 ${GAMMA:+--gamma "$GAMMA"} --json
}
transcript() {
    "$rondo" chat --model "$model" --threads 1 <"$tools/chat_turns.txt" | paste -d '\n' <(sed 's/^/> /' "$tools/chat_turns.txt") -
}
all=recall,local,list,again,unknown

lane_1() { # the engine's, which needs a build; then cells
    once transcript.txt transcript
    attention 16 $([ "$quick" ] && echo 60 || echo 200)
    attention 32 $([ "$quick" ] && echo 40 || echo 200)
    once same_answers.json $python "$tools/same_answers.py" "$model" --program "$rondo" --dialogues 500 --json
    [ "$quick" ] && return
    for task in ${all//,/ }; do cells evaluate_32_$task.json 200 32 both $task; done
}
lane_2() { # the trainer's own
    once probe.json $python "$tools/probe.py" "$model" --dialogues 42 --json
    [ "$quick" ] && { cells evaluate_quick.json 60 2,16,32 teacher_forced $all; return; }
    cells evaluate_2_8.json 200 2,8 both $all
    cells evaluate_16.json 200 16 both $all
    for task in ${all//,/ }; do cells evaluate_90_$task.json 40 90 both $task; done
    once merge_map.json $python "$tools/merge_map.py" "$model" --dialogues 100 --json
}
case ${LANES:-both} in 1) lane_1 ;; 2) lane_2 ;; *) lane_1 & lane_2 & wait ;; esac
$python "$tools/card.py" "$out" "$model" >"$out/README.md" && echo "the card: $out/README.md"
