#!/usr/bin/env bash
# A sweep on a real Slurm of two virtual nodes on this machine, one of which is killed on the way: run by hand, as root.
#
#   apt-get install slurm-wlm munge; .venv/bin/pip install -c constraints.txt -e '.[book,lm,cluster]'
#   tests/cluster/slurm.sh [seconds until a node is killed, 60 if left out]
#
# It writes /etc/slurm/slurm.conf (jobs look for it there, and nowhere else), starts munged, slurmctld and two slurmd,
# runs four smoke runs of a chapter, and ends what it started. It fails unless all four runs are done.
set -euo pipefail
cd "$(dirname "$0")/../.."
WAIT=${1:-60}
PLACE=$(mktemp -d /tmp/slurm-trial.XXXX)
STARTED=()

ended() { # the processes that this script started, by their ids
  for pid in "${STARTED[@]}"; do kill "$pid" 2>/dev/null || true; done
}
trap ended EXIT

start() { # a daemon in the foreground of its own, so that its id is known
  "$@" >>"$PLACE/${1##*/}.log" 2>&1 &
  STARTED+=($!)
}

install -d -o munge -g munge /run/munge
test -f /etc/munge/munge.key || { dd if=/dev/urandom of=/etc/munge/munge.key bs=1024 count=1 status=none; }
chown munge: /etc/munge/munge.key && chmod 400 /etc/munge/munge.key
mkdir -p /etc/slurm "$PLACE/state"
cat >/etc/slurm/slurm.conf <<CONF
ClusterName=trial
SlurmctldHost=localhost
SlurmUser=root
AuthType=auth/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SlurmdTimeout=20
ReturnToService=2
StateSaveLocation=$PLACE/state
SlurmdSpoolDir=$PLACE/spool-%n
SlurmctldPidFile=$PLACE/slurmctld.pid
SlurmdPidFile=$PLACE/slurmd-%n.pid
NodeName=one NodeHostname=localhost Port=17001 CPUs=1 RealMemory=8000
NodeName=two NodeHostname=localhost Port=17002 CPUs=1 RealMemory=8000
PartitionName=main Nodes=one,two Default=YES MaxTime=INFINITE State=UP
CONF

start setpriv --reuid munge --regid munge --clear-groups munged --foreground
sleep 2
start slurmctld -D -i
sleep 3
start slurmd -D -N one
start slurmd -D -N two
DOOMED=${STARTED[-1]}
sleep 5
sinfo

printf 'chapter: generative_rollout\nprofile: smoke\nlists: {seed: [0, 1], top_k: [3, 4]}\n' >"$PLACE/trial.yaml"
(
  sleep "$WAIT"
  job=$(squeue --noheader --nodelist two --format %A | head -1)
  echo "killing node two, and its job ${job:-(none)}"
  kill -9 "$DOOMED"
  for pid in $(pgrep --full "slurmstepd: \[${job:-none}"); do pkill -9 --parent "$pid"; kill -9 "$pid"; done || true
  squeue
  sleep 40 # longer than SlurmdTimeout: the node is down, its job is queued again
  sinfo
  slurmd -D -N two >>"$PLACE/slurmd.log" 2>&1 &
  echo $! >"$PLACE/again"
) &
KILLER=$!
.venv/bin/python -m book.pipeline.sweep "$PLACE/trial.yaml" --profile book/pipeline/slurm --jobs 2
wait "$KILLER"
kill "$(cat "$PLACE/again")"
squeue --states all
grep -c . build/sweeps/trial/table.csv
echo "Logs of the daemons: $PLACE"
