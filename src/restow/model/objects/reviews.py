"""Token and access reviews: the API server authenticates a token, and says what a user is allowed to do."""

from __future__ import annotations

from restow.model.objects.base import ApiStruct


class UserInfo(ApiStruct):
    username: str | None = None
    uid: str | None = None
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class TokenReviewStatus(ApiStruct):
    authenticated: bool | None = None
    user: UserInfo | None = None
    error: str | None = None


class TokenReview(ApiStruct):
    status: TokenReviewStatus = TokenReviewStatus()


class SubjectAccessReviewStatus(ApiStruct):
    allowed: bool | None = None
    reason: str | None = None


class SubjectAccessReview(ApiStruct):
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()
