select drop_days(:keep_days) as n \gset
