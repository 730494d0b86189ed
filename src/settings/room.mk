# The table of settings, YAML, the names that other tools have for them.
LIB_SRCS += \
	src/settings/settings.c \
	src/settings/settings_alias.c \
	src/settings/settings_yaml.c \
	src/settings/settings_yaml_write.c
USES += yaml
