#!/bin/sh
# Fetch the custom resource definitions of operators that some manifests need: `make definitions`.
# They go to .controlplane/definitions/ of the checkout, from the operators' Go modules. Nothing is built.
set -eu

make_target=definitions
. "$(dirname "$0")/../helpers/go_modules.sh"

# fetch MODULE VERSION SUM FILE …: copy these files; SUM is what Go computes for the whole module
fetch() {
	module=$1 version=$2 sum=$3
	shift 3
	target=$root/.controlplane/definitions/${module##*/}-$version
	if [ ! -d "$target" ]; then
		use_go 1.21
		found=$(cd "$here" && GOFLAGS=-mod=mod go mod download -json "$module@$version") ||
			fail "no $module@$version: $found"
		[ "$(field Sum)" = "$sum" ] || fail "$module@$version has the sum $(field Sum), not $sum"
		begin "$target"
		for file in "$@"; do
			cp "$(field Dir)/$file" "$unfinished/"
		done
		chmod u+w "$unfinished"/*
		finish "$target"
	fi
	echo "Definitions of $module $version: $target"
}

# field NAME: a field of what Go found
field() {
	printf '%s\n' "$found" | sed -n "s/^[[:space:]]*\"$1\": \"\(.*\)\",\{0,1\}\$/\1/p"
}

crds=example/prometheus-operator-crd/monitoring.coreos.com
fetch github.com/prometheus-operator/prometheus-operator v0.85.0 \
	h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s= \
	${crds}_servicemonitors.yaml ${crds}_prometheusrules.yaml
crds=deploy/crds/cert-manager.io
fetch github.com/cert-manager/cert-manager v1.21.2 \
	h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68= \
	${crds}_certificates.yaml ${crds}_issuers.yaml ${crds}_clusterissuers.yaml
