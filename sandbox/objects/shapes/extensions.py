"""The shape of what extends the API server: webhooks, APIServices, CRDs."""

from typing import Any

import msgspec

from sandbox.objects.schema_keywords import (
    LIST_KEYS,
    LIST_TYPE,
    RULES,
)
from sandbox.objects.shapes.base import (
    Condition,
    Flag,
    Json,
    LabelSelector,
    Long,
    Number,
    Shape,
    Text,
    Texts,
)


class ServiceReference(Shape):
    """The Service that an APIService is reached by."""

    namespace: str
    name: str
    path: Text = None
    port: Number = None


class WebhookService(Shape):
    """``ServiceReference`` of a webhook, whose own rules ask for name and namespace."""

    namespace: Text = None
    name: Text = None
    path: Text = None
    port: Number = None


class ClientConfig(Shape):
    """``WebhookClientConfig``."""

    url: Text = None
    service: WebhookService | None = None
    ca_bundle: Text = None


class Rule(Shape):
    """``RuleWithOperations``."""

    operations: Texts = None
    api_groups: Texts = None
    api_versions: Texts = None
    resources: Texts = None
    scope: Text = None


class Webhook(Shape):
    """``MutatingWebhook`` and ``ValidatingWebhook``."""

    name: Text = None
    client_config: ClientConfig | None = None
    rules: list[Rule] | None = None
    failure_policy: Text = None
    match_policy: Text = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    side_effects: Text = None
    timeout_seconds: Number = None
    admission_review_versions: Texts = None
    reinvocation_policy: Text = None
    match_conditions: list[dict[str, Any]] | None = None


class Webhooks(Shape):
    """``MutatingWebhookConfiguration`` and ``ValidatingWebhookConfiguration``."""

    webhooks: list[Webhook] | None = None


class ApiServiceSpec(Shape):
    """``APIServiceSpec``."""

    group: Text = None
    version: Text = None
    service: ServiceReference | None = None
    insecure_skip_tls_verify: Flag = msgspec.field(default=None, name="insecureSkipTLSVerify")
    ca_bundle: Text = None


class ConditionsOnly(Shape):
    """A status of which only the conditions count."""

    conditions: list[Condition] | None = None


class ApiService(Shape):
    """``APIService``."""

    spec: ApiServiceSpec | None = None
    status: ConditionsOnly | None = None


class Schema(Shape):
    """``JSONSchemaProps``."""

    type: Text = None
    format: Text = None
    description: Text = None
    properties: "dict[str, Schema] | None" = None
    additional_properties: "Schema | bool | None" = None
    items: "Schema | None" = None
    required: Texts = None
    enum: list[Any] | None = None
    pattern: Text = None
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: Flag = None
    exclusive_maximum: Flag = None
    min_length: Long = None
    max_length: Long = None
    min_items: Long = None
    max_items: Long = None
    max_properties: Long = None
    nullable: Flag = None
    all_of: "list[Schema] | None" = None
    any_of: "list[Schema] | None" = None
    one_of: "list[Schema] | None" = None
    not_: "Schema | None" = msgspec.field(default=None, name="not")
    list_type: Text = msgspec.field(default=None, name=LIST_TYPE)
    list_keys: Texts = msgspec.field(default=None, name=LIST_KEYS)
    rules: list[dict[str, Any]] | None = msgspec.field(default=None, name=RULES)


class Validation(Shape):
    """``CustomResourceValidation``."""

    open_api_v3_schema: Schema | None = msgspec.field(default=None, name="openAPIV3Schema")


class ScalePaths(Shape):
    """``CustomResourceSubresourceScale``."""

    spec_replicas_path: str
    status_replicas_path: str
    label_selector_path: Text = None


class Subresources(Shape):
    """``CustomResourceSubresources``."""

    status: Json = None
    scale: ScalePaths | None = None


class PrinterColumn(Shape):
    """``CustomResourceColumnDefinition``."""

    name: str
    type: str
    json_path: str
    format: Text = None
    description: Text = None
    priority: Number = None


class SelectableField(Shape):
    """``SelectableField``."""

    json_path: str


class DefinedVersion(Shape):
    """``CustomResourceDefinitionVersion``."""

    name: str
    served: bool
    storage: bool
    schema: Validation | None = None
    subresources: Subresources | None = None
    additional_printer_columns: list[PrinterColumn] | None = None
    selectable_fields: list[SelectableField] | None = None


class Names(Shape):
    """``CustomResourceDefinitionNames``."""

    plural: Text = None
    singular: Text = None
    kind: Text = None
    list_kind: Text = None
    short_names: Texts = None
    categories: Texts = None


class DefinitionSpec(Shape):
    """``CustomResourceDefinitionSpec``."""

    group: Text = None
    scope: Text = None
    names: Names | None = None
    versions: list[DefinedVersion] | None = None
    conversion: Json = None


class DefinitionStatus(Shape):
    """``CustomResourceDefinitionStatus``."""

    conditions: list[Condition] | None = None
    accepted_names: Names | None = None
    stored_versions: Texts = None


class Definition(Shape):
    """``CustomResourceDefinition``."""

    spec: DefinitionSpec | None = None
    status: DefinitionStatus | None = None
