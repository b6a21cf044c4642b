"""What Kubernetes adds to the schemas of OpenAPI: keywords, and fields that every object has.

Source: ``JSONSchemaProps``, k8s.io/apiextensions-apiserver
pkg/apis/apiextensions/v1/types_jsonschema.go.
"""

from collections.abc import Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

INT_OR_STRING: Final = "x-kubernetes-int-or-string"
LIST_KEYS: Final = "x-kubernetes-list-map-keys"
LIST_TYPE: Final = "x-kubernetes-list-type"
PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
RULES: Final = "x-kubernetes-validations"

OF_EVERY_OBJECT: Final = ("apiVersion", "kind", "metadata")
