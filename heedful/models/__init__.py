"""Models: one page each, from config to module."""

from heedful.models.translation import Translation, TranslationConfig

CONFIGS = {"translation": TranslationConfig}
BUILD = {"translation": Translation}
