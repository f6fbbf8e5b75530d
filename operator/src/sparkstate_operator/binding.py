"""The role that drivers are bound to. Somebody else makes it, so it may be missing or have another name."""

from __future__ import annotations

from sparkstate_operator import errors
from sparkstate_operator.config import DriverRole
from sparkstate_operator.edges import kube as k


async def require(kube: k.Kube, role: DriverRole, namespace: str) -> None:
    """Return if the role is there. Raises ``DriverRoleMissing``, and ``Forbidden`` where nobody may ask.

    The API server accepts a RoleBinding to a role that does not exist, and the binding grants nothing. Without this
    question the working binding of an older operator was deleted in favour of such a one.
    """
    if role.kind == "ClusterRole":
        found = await kube.get(k.CLUSTER_ROLES, None, role.name)
    else:
        found = await kube.get(k.ROLES, namespace, role.name)
    if found is None:
        raise missing(role)


def missing(role: DriverRole) -> errors.DriverRoleMissing:
    """Told to people by the job's Events."""
    return errors.DriverRoleMissing(
        f"{role.kind} {role.name} (--driver-role) does not exist; drivers keep the rights that they have. Create it "
        "with the rules `driver` of the chart's files/rules.yaml"
    )
