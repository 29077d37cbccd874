update document set body = jsonb_set(body, '{status}', to_jsonb(:state::text)) where id = :id;
