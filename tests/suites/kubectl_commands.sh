#!/usr/bin/env bash
# Runs the functions of Kubernetes' test/cmd, in their own order, against a cluster that is running.
#
# usage: kubectl_commands.sh MODULE BIN PORT RESULTS [FUNCTION ...]
#   MODULE   directory of the Go module k8s.io/kubernetes
#   BIN      directory with kubectl and kubectl-convert
#   PORT     port of the API server on 127.0.0.1, which accepts the token admin-token
#   RESULTS  file to which a line is added for each function: its name, exit code and seconds
# The current directory must have links to the directories of the module that the functions read. The log of each function
# is NAME.log beside RESULTS.

module=$1 bin=$2 export_port=$3 results=$4
shift 4
selected=" $* "
export SECURE_API_PORT=$export_port TERM=${TERM:-dumb} SUPPORTED_RESOURCES=("*")

source "${module}/hack/lib/init.sh"
source "${module}/hack/lib/test.sh"
THIS_PLATFORM_BIN=$bin
KUBE_JUNIT_REPORT_DIR=$(mktemp -d)
export KUBE_JUNIT_REPORT_DIR
source "${module}/test/cmd/legacy-script.sh"

# Nothing is built or started here.
kube::etcd::cleanup() { :; }
kube::etcd::start() { :; }
make() { :; }

# The original looks for the name of its own authority, which the server announces. This one asks for a client certificate
# without announcing names.
kube::util::test_client_certificate_authentication_enabled() {
  openssl s_client -connect "127.0.0.1:${SECURE_API_PORT}" </dev/null 2>/dev/null |
    grep -q 'Requested Signature Algorithms'
}

record_command() {
  local name=$1
  if [[ $selected != "  " && $selected != *" ${name} "* ]]; then
    return 0
  fi
  local begun=$SECONDS
  set +o nounset
  set +o errexit
  (
    set -o nounset
    set -o errexit
    "$@"
  ) >"$(dirname "${results}")/${name}.log" 2>&1
  local code=$?
  printf '%s\t%s\t%s\n' "${name}" "${code}" "$((SECONDS - begun))" >>"${results}"
  set -o nounset
  set -o errexit
}

setup
kubectl create clusterrolebinding allow-everybody --clusterrole=cluster-admin --group=system:authenticated
kubectl delete crd,storageclass --all
kubectl create -f - <<NODE
{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "127.0.0.1", "annotations": {"save-managers": "true"}},
 "status": {"capacity": {"memory": "1Gi"}}}
NODE
runTests
