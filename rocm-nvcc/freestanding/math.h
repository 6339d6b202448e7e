// Every file has it.
#pragma once
